"""`kata list`: all katas, or those that match."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from grader.commands.arguments import some_katas
from grader.exercise.repository import matching
from grader.record.ledger import read_ledger
from grader.record.status import FileState, KataStatus, status_of
from grader.report import marks
from grader.report.progress_map import SIGNS
from grader.tools.rendering import show


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
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
    show(Group(*parts), console)
    return 0


def _state(found: KataStatus) -> tuple[str, str]:
    """What ledger and files tell, and its colour."""
    words = found.file_state.value
    if found.file_state is FileState.SOLVED:
        words = f"{words} {marks.star_signs(found.stars).plain}"
    return words, SIGNS[found.file_state][1]
