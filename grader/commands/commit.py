"""`kata commit`: one commit for each solved kata, with its line of the ledger."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from grader.commands.arguments import some_katas
from grader.exercise.catalog import in_order
from grader.exercise.repository import matching
from grader.record import commits
from grader.record.last_commit import last_commit, uncommitted
from grader.record.ledger import Ledger, read_ledger
from grader.record.status import FileState, KataStatus, all_statuses, status_of
from grader.report.progress_map import standing
from grader.tools.git import GitError, NoGit, NoRepository, git_in, require_writable
from grader.tools.rendering import say


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser, "*")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    asked, unsolved = _asked(root, ledger, options.name)
    try:
        git = git_in(root)
    except NoGit as error:
        remedy = f". git init {root} makes one" if isinstance(error, NoRepository) else ""
        raise GitError(f"nothing to commit to: {error}{remedy}") from None
    require_writable(git)
    commits.require_quiet(git)
    made = 0
    for one in uncommitted(git, asked, ledger, last_commit(git)):
        if done := commits.commit_kata(git, one):
            made += 1
            say(console, f"{done.id}  {done.subject}")
    for one in unsolved:
        say(console, f"{one.kata.name} is not solved as it is: {standing(one)}")
    if made and not commits.branch(git):
        console.print("These are on no branch (a detached HEAD): git switch -c NAME keeps them")
    if not made and not unsolved:
        console.print(
            "Nothing to commit: the last commit has every solved kata"
            if any(one.file_state is FileState.SOLVED for one in asked)
            else "Nothing to commit: no kata is solved as it is; pytest -k NAME grades one"
        )
    return 1 if unsolved else 0


def _asked(
    root: Path, ledger: Ledger, names: Sequence[str]
) -> tuple[tuple[KataStatus, ...], tuple[KataStatus, ...]]:
    """The katas that are meant, and the unsolved ones of names that mean nothing else."""
    if not names:
        return tuple(all_statuses(root, ledger)), ()
    meant: dict[str, KataStatus] = {}
    unsolved: dict[str, KataStatus] = {}
    for name in names:
        group = {kata.id: status_of(kata, ledger) for kata in matching(root, name)}
        meant |= group
        if not any(member.file_state is FileState.SOLVED for member in group.values()):
            unsolved |= group
    return _ordered(meant), _ordered(unsolved)


def _ordered(found: Mapping[str, KataStatus]) -> tuple[KataStatus, ...]:
    return tuple(found[kata.id] for kata in in_order(one.kata for one in found.values()))
