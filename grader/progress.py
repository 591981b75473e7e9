"""The commands `kata progress` and `kata commit`: what is remembered, and what git keeps of it."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.catalog import named
from grader.git import GitError, NoGit, git_in
from grader.record import commits
from grader.record.head import head, uncommitted
from grader.record.history import history
from grader.record.ledger import Ledger, read
from grader.record.present import Known, Present, presents
from grader.rendering import show
from grader.report import badge
from grader.report.log import log_of
from grader.report.progress import map_of, not_committed, standing, warned
from grader.repository import RepositoryError

Command = Callable[[argparse.Namespace, Path, Console], int]
Add = Callable[[str, Command, str], argparse.ArgumentParser]


def add_commands(add: Add) -> None:
    """Add both commands by `add`, which takes a name, what it runs, and what it does in a line."""
    progress = add("progress", _progress, "what is solved, without running anything")
    progress.add_argument("name", nargs="?", default="", help="some katas, as for pytest -k")
    ways = progress.add_mutually_exclusive_group()
    ways.add_argument("--log", action="store_true", help="what was solved when, from git's history")
    ways.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="write a picture of it for a README; only one of its own is replaced",
    )
    commit = add("commit", _commit, "one commit for each solved kata, with its line of the ledger")
    commit.add_argument("name", nargs="*", help="some katas, as for pytest -k (default: all)")


def _progress(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read(root)
    found = _named(presents(root, ledger), options.name)
    if options.svg:
        badge.write(options.svg, found)
        console.print(f"wrote {options.svg}", markup=False, soft_wrap=True)
        return 0
    if options.log:
        return _log(root, ledger, found if options.name else (), console)
    notes = list(warned(ledger.warnings))
    try:
        git = git_in(root)
        if behind := uncommitted(git, found, ledger, head(git)):
            notes.append(not_committed([one.kata for one in behind]))
    except GitError as error:
        notes.append(Text(f"no git here ({error}): no kata commit, no dates of commits", "dim"))
    show(map_of(found, notes), console)
    return 0


def _log(root: Path, ledger: Ledger, found: Sequence[Present], console: Console) -> int:
    """The history of these katas; of none, that of all that the ledger ever knew."""
    about = {one.kata.id for one in found}
    told = Ledger(tuple(one for one in ledger.passes if not about or one.kata in about))
    notes = list(ledger.warnings)
    try:
        past = history(told, git_in(root))
    except GitError as error:
        past = history(told, None)
        notes.append(f"no git here ({error}): these are the ledger's own days")
    if past.cut:
        notes.append(
            f"a shallow clone: commits before {past.cut} are not here, and what they brought has "
            "the ledger's own days; git fetch --unshallow brings them"
        )
    show(log_of(past, datetime.date.today(), tuple(notes)), console)
    return 0


def _named(found: Sequence[Present], name: str) -> tuple[Present, ...]:
    """Those that match; all for "". Raises RepositoryError for none."""
    if not name:
        return tuple(found)
    chosen = {kata.id for kata in named([one.kata for one in found], name)}
    if not chosen:
        raise RepositoryError(f"no kata matches {name!r}")
    return tuple(one for one in found if one.kata.id in chosen)


def _commit(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read(root)
    asked, unsolved = _asked(presents(root, ledger), options.name)
    try:
        git = git_in(root)
    except NoGit as error:
        raise GitError(f"nothing to commit to: {error}") from None
    commits.require_quiet(git)
    made = 0
    for one in uncommitted(git, asked, ledger, head(git)):
        if done := commits.commit(git, one):
            made += 1
            _say(f"{done.id}  {done.subject}", console)
    for one in unsolved:
        _say(f"{one.kata.name} is not solved as it is: {standing(one)}", console)
    if made and not commits.branch(git):
        console.print("These are on no branch (a detached HEAD): git switch -c NAME keeps them")
    if not made and not unsolved:
        console.print(
            "Nothing to commit: the last commit has every solved kata"
            if any(one.known is Known.SOLVED for one in asked)
            else "Nothing to commit: no kata is solved as it is; pytest -k NAME grades one"
        )
    return 1 if unsolved else 0


def _say(line: str, console: Console) -> None:
    show(Text(line, no_wrap=True, overflow="ignore"), console)


def _asked(
    found: Sequence[Present], names: Sequence[str]
) -> tuple[tuple[Present, ...], tuple[Present, ...]]:
    """The katas that are meant, and the unsolved ones of names that mean nothing else."""
    if not names:
        return tuple(found), ()
    groups = [_named(found, name) for name in names]
    meant = {one.kata.id for group in groups for one in group}
    unsolved = {
        one.kata.id
        for group in groups
        if not any(member.known is Known.SOLVED for member in group)
        for one in group
    }
    return (
        tuple(one for one in found if one.kata.id in meant),
        tuple(one for one in found if one.kata.id in unsolved),
    )
