"""`kata hint`: one hint, and one level more each time it is asked."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import one_kata, open_if_asked, open_option
from grader.exercise import repository
from grader.exercise.keys import HINTS
from grader.exercise.repository import STATE
from grader.tools.rendering import say

FILE = "hints.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser)
    levels = range(1, len(HINTS) + 1)
    parser.add_argument(
        "level", nargs="?", type=int, choices=levels, help="this hint (default: the next one)"
    )
    open_option(parser)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    file = root / STATE / FILE
    given = _given(file)
    level = options.level or min(given.get(kata.id, 0) + 1, len(HINTS))
    given[kata.id] = max(level, given.get(kata.id, 0))
    title = (f"{kata.name}, hint {level} of {len(HINTS)}", "bold")
    console.print(Text.assemble(title, (f" ({HINTS[level - 1]})", "dim")))
    console.print(f"  {kata.key.hints[level - 1]}", markup=False)
    unsaved = _save(file, given)
    if level == len(HINTS):
        console.print(Text(f"  the solution: kata show {kata.name}", "dim"))
    elif unsaved:
        say(
            console,
            f"  more: kata hint {kata.name} {level + 1} (the level can't be saved: {unsaved})",
        )
    else:
        console.print(Text(f"  more: kata hint {kata.name}", "dim"))
    open_if_asked(options, kata)
    return 0


def _save(file: Path, given: dict[str, int]) -> str:
    """Write how many hints were given; returns why that fails, where it does."""
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(given, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        return f"{error.strerror or error}, {error.filename}"
    return ""


def _given(file: Path) -> dict[str, int]:
    """How many hints were given, by kata; a damaged file counts as none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    levels = data.items() if isinstance(data, dict) else ()
    known = range(1, len(HINTS) + 1)
    return {kata: level for kata, level in levels if type(level) is int and level in known}
