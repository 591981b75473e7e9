"""`kata list`: all katas, or those that match."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from grader.commands.arguments import completed, names, some_katas
from grader.exercise.catalog import Kata
from grader.exercise.needs import way_to
from grader.exercise.repository import RepositoryError, matching, one
from grader.record.ledger import Ledger, read_ledger
from grader.record.status import FileState, KataStatus, next_kata, status_of
from grader.report import marks
from grader.report.progress_map import SIGNS
from grader.tools.rendering import show


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    path = parser.add_argument(
        "--path", metavar="NAME", help="only the katas that lead to this one by the shortest way"
    )
    completed(path, names)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.path and options.name:
        raise RepositoryError("give a NAME or --path NAME, not both")
    if options.path:
        found = way_to(one(root, options.path), matching(root, ""))
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
        words = f"{words} {marks.star_signs(found.stars).plain}"
    return words, SIGNS[found.file_state][1]
