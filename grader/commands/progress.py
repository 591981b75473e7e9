"""`kata`, `kata progress`, `kata next`, `kata list`.

`kata progress`: what is solved, without running anything.

`kata` alone: where one stands, and what to do next.

`kata next`: the first kata that is not solved.

`kata list`: all katas, or those that match.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from grader.commands.arguments import completed, names, open_if_asked, open_option, some_katas
from grader.exercise.catalog import Kata
from grader.exercise.readmes import path_to
from grader.exercise.repository import RepositoryError, matching, single_kata
from grader.record.history import history
from grader.record.ledger import Ledger, read_ledger
from grader.record.status import FileState, KataStatus, all_statuses, next_kata, status_of
from grader.report import maps, report_files
from grader.report.history_log import history_text
from grader.report.maps import (
    PROGRESS_SIGNS,
    no_next_kata_message,
    progress_map,
    progress_summary,
    record_notes,
    status_text,
)
from grader.tools.git import GitError, git_in
from pallascope.tools.terminal import show


def progress_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--log", action="store_true", help="list what was solved when, from git")
    ways.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="draw it for a README; FILE is replaced only if kata progress drew it",
    )


def run_progress(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    found = tuple(status_of(kata, ledger) for kata in matching(root, options.name))
    if options.svg:
        report_files.write_badge(options.svg, found)
        console.print(f"wrote {options.svg}", markup=False, soft_wrap=True)
        return 0
    if options.log:
        return _log(root, ledger, found if options.name else (), console)
    show(progress_map(found, record_notes(root, ledger, found)), console)
    return 0


def _log(root: Path, ledger: Ledger, found: Sequence[KataStatus], console: Console) -> int:
    """The history of these katas; of none, that of all that the ledger ever knew."""
    about = {one.kata.id for one in found}
    told = Ledger(tuple(one for one in ledger.passes if not about or one.kata in about))
    missing = list(ledger.warnings)
    try:
        past = history(told, git_in(root))
    except GitError as error:
        past = history(told, None)
        missing.append(f"no git here ({error}): these are the ledger's own days")
    if past.shallow:
        missing.append(
            f"a shallow clone: commits before {past.shallow} are not here, and what they brought "
            "has the ledger's own days; git fetch --unshallow brings them"
        )
    show(history_text(past, datetime.date.today(), tuple(missing)), console)
    return 0


MORE = """
kata next --open   open it in your editor
kata watch         grade what you save, when you save it
kata --help        all commands"""


def run_overview(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    found = tuple(all_statuses(root, ledger))
    show(
        Group(progress_summary(found, record_notes(root, ledger, found)), Text(MORE, "dim")),
        console,
    )
    return 0


def next_arguments(parser: argparse.ArgumentParser) -> None:
    open_option(parser)


def run_next(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    following = next_kata(all_statuses(root, ledger))
    if following is None:
        console.print(no_next_kata_message(tuple(all_statuses(root, ledger))))
        return 0
    kata = following.kata
    console.print(Text(_where(kata), "cyan"))
    console.print(f"  {kata.key.title}: {kata.key.concept}", markup=False)
    if following.file_state is not FileState.TODO:
        show(Text(f"  {status_text(following)}"), console)
    console.print(f"  pytest -k {kata.name}      stuck?  kata hint {kata.name}")
    open_if_asked(options, kata)
    return 0


def _where(kata: Kata) -> str:
    file, line = kata.location()
    return f"{file}:{line}"


def list_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    path = parser.add_argument(
        "--path", metavar="NAME", help="only the katas that lead to this one by the shortest way"
    )
    completed(path, names)


def run_list(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.path and options.name:
        raise RepositoryError("give a NAME or --path NAME, not both")
    if options.path:
        found = path_to(single_kata(root, options.path), matching(root, ""))
    else:
        found = matching(root, options.name)
    ledger = read_ledger(root)
    lines = [(kata, *_state(status_of(kata, ledger))) for kata in found]
    wide = max(len(kata.name) for kata in found)
    told = max(len(FileState.EDITED.value), *(len(words) for _, words, _ in lines))
    parts: list[Text] = []
    for track in dict.fromkeys(kata.track for kata in found):
        parts.append(Text(track, "bold"))
        for kata, words, colour in (line for line in lines if line[0].track == track):
            line = Text(no_wrap=True, overflow="ellipsis")
            line.append(f"  {kata.number} ", "dim").append(f" {kata.name:<{wide}}  ")
            parts.append(line.append(f"{words:<{told}}  ", colour).append(kata.key.concept))
    parts.append(Text("edited, changed: pytest -k kata shows whether it is right", "dim"))
    if options.path:
        parts.append(_way(found, ledger))
    show(Group(*parts), console)
    return 0


def _way(found: Sequence[Kata], ledger: Ledger) -> Text:
    """How long the way is, and where to go on."""
    statuses = [status_of(kata, ledger) for kata in found]
    solved = sum(status.file_state is FileState.SOLVED for status in statuses)
    text = f"the shortest way to {found[-1].name}: {len(found)} katas, {solved} solved"
    following = next_kata(statuses)
    return Text(f"{text}; next: {following.kata.name}" if following else text, "bold")


def _state(found: KataStatus) -> tuple[str, str]:
    """What ledger and files tell, and its colour."""
    words = found.file_state.value
    if found.file_state is FileState.SOLVED:
        words = f"{words} {maps.star_signs(found.stars).plain}"
    return words, PROGRESS_SIGNS[found.file_state][1]
