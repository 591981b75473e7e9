"""`kata reset`, `kata restore`, `kata commit`: restore stubs or attempts, commit solved katas."""

from __future__ import annotations

import argparse
import datetime
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import confirm, one_kata, some_katas
from grader.exercise import repository
from grader.exercise.catalog import Kata, in_order
from grader.exercise.repository import Attempt, RepositoryError, matching
from grader.record import commits
from grader.record.commits import last_commit, uncommitted
from grader.record.ledger import Ledger, read_ledger
from grader.record.status import FileState, KataStatus, all_statuses, status_of
from grader.report.maps import status_text
from grader.tools.git import GitError, NoGit, NoRepository, git_in, require_writable
from pallascope.tools.text import print_line


def reset_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser, which="the katas to reset")
    parser.add_argument("--all", action="store_true", help="every kata")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")


def run_reset(options: argparse.Namespace, root: Path, console: Console) -> int:
    if bool(options.name) == options.all:
        raise RepositoryError("reset takes a name or --all: kata reset constant_add")
    selected = repository.matching(root, "" if options.all else options.name)
    differing = [kata for kata in selected if not _is_stub(kata)]
    if not differing:
        subject = (
            f"{selected[0].name} is" if len(selected) == 1 else f"all {len(selected)} katas are"
        )
        console.print(f"{subject} as shipped: nothing to reset")
        return 0
    if len(selected) > 1 and not options.yes and not _confirm_reset(differing, console):
        return 1
    for kata in differing:
        if saved := repository.reset(kata, datetime.datetime.now()):
            print_line(console, f"saved  {saved.relative_to(root).as_posix()}")
        print_line(console, f"reset  {':'.join(map(str, kata.location()))}")
    names = differing[0].name if len(differing) == 1 else "NAME"
    console.print(Text(f"to get it back: kata restore {names}", "dim"))
    return 0


def _is_stub(kata: Kata) -> bool:
    """Whether the file is exactly the stub. Raises KeyProblem or RegionError for a broken kata."""
    return kata.path.exists() and kata.path.read_bytes() == kata.stub_text().encode()


def _confirm_reset(differing: Sequence[Kata], console: Console) -> bool:
    for kata in differing:
        print_line(console, f"  {kata.id}")
    stubs = "this stub" if len(differing) == 1 else f"these {len(differing)} stubs"
    return confirm(f"Restore {stubs}? Your code is saved first.", console)


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser, "?", "; without it, all attempts are listed")
    parser.add_argument(
        "number", nargs="?", type=int, help="number of the attempt (default: the newest)"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="restore the whole file as it was saved, even if the kata has changed since",
    )


def run_restore(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.name is None:
        return _list_attempts(repository.all_attempts(root), console)
    kata = repository.single_kata(root, options.name)
    attempt = repository.find_attempt(kata, options.number)
    data, as_saved = repository.restored_content(attempt, options.whole)
    which = f"attempt {attempt.number} of {len(repository.attempts(kata))}, {attempt.when}"
    if kata.path.exists() and kata.path.read_bytes() == data:
        print_line(console, f"{kata.name} holds {which}: nothing to restore")
        return 0
    if saved := repository.save_attempt(kata, datetime.datetime.now()):
        print_line(console, f"saved     {saved.relative_to(root).as_posix()}")
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.write_bytes(data)
    print_line(console, f"restored  {':'.join(map(str, kata.location()))}   {which}")
    if not as_saved:
        print_line(
            console,
            "The kata has changed since: your regions are restored, the rest is as shipped now. "
            f"For the file as it was: kata restore {kata.name} {attempt.number} --whole",
        )
    return 0


def _list_attempts(found: Sequence[Attempt], console: Console) -> int:
    if not found:
        console.print("no attempts are saved: kata reset saves the code that it replaces")
        return 0
    width = max(len(attempt.kata.name) for attempt in found)
    for track, members in itertools.groupby(found, key=lambda attempt: attempt.kata.track):
        console.print(Text(track, "bold"))
        for attempt in members:
            console.print(_line(attempt, width), no_wrap=True, overflow="ellipsis")
    console.print(Text("restore one: kata restore NAME [NUMBER]", "dim"))
    return 0


def _line(attempt: Attempt, width: int) -> Text:
    """One attempt: its time, its number of lines, and its first line."""
    body = attempt.body()
    lines = f"{len(body)} line{'' if len(body) == 1 else 's'}"
    line = Text.assemble(
        f"  {attempt.kata.name:<{width}}  {attempt.number}  ",
        (f"{attempt.when}  {lines:<8}  ", "dim"),
        body[0] if body else "",
    )
    line.rstrip()
    return line


def commit_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser, "*")


def run_commit(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    selected, unsolved = _selected_statuses(root, ledger, options.name)
    try:
        git = git_in(root)
    except NoGit as error:
        remedy = f". git init {root} makes one" if isinstance(error, NoRepository) else ""
        raise GitError(f"nothing to commit to: {error}{remedy}") from None
    require_writable(git)
    commits.require_ready_to_commit(git)
    commit_count = 0
    for status in uncommitted(git, selected, ledger, last_commit(git)):
        if commit := commits.commit_kata(git, status):
            commit_count += 1
            print_line(console, f"{commit.id}  {commit.subject}")
    for status in unsolved:
        print_line(console, f"{status.kata.name} isn't solved now: {status_text(status)}")
    if commit_count and not commits.current_branch(git):
        console.print("The commits are on no branch (detached HEAD): git switch -c NAME keeps them")
    if not commit_count and not unsolved:
        console.print(
            "Nothing to commit: the last commit has every solved kata"
            if any(status.file_state is FileState.SOLVED for status in selected)
            else "Nothing to commit: no kata is solved now; pytest -k NAME grades one"
        )
    return 1 if unsolved else 0


def _selected_statuses(
    root: Path, ledger: Ledger, names: Sequence[str]
) -> tuple[tuple[KataStatus, ...], tuple[KataStatus, ...]]:
    """The katas that `names` select, and the katas of names that match no solved kata."""
    if not names:
        return tuple(all_statuses(root, ledger)), ()
    selected: dict[str, KataStatus] = {}
    unsolved: dict[str, KataStatus] = {}
    for name in names:
        group = {kata.id: status_of(kata, ledger) for kata in matching(root, name)}
        selected |= group
        if not any(member.file_state is FileState.SOLVED for member in group.values()):
            unsolved |= group
    return _in_order(selected), _in_order(unsolved)


def _in_order(found: Mapping[str, KataStatus]) -> tuple[KataStatus, ...]:
    return tuple(found[kata.id] for kata in in_order(one.kata for one in found.values()))
