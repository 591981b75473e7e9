"""`kata hint`: one hint, and one level more each time it is asked."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.exercise import repository
from grader.exercise.repository import STATE

HINTS = "hints.json"
LEVELS = ("a nudge", "the pattern", "nearly all of it")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="one kata, as for pytest -k")
    parser.add_argument("level", nargs="?", type=int, choices=(1, 2, 3), help="this level instead")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    file = root / STATE / HINTS
    asked = _asked(file)
    level = options.level or min(asked.get(kata.id, 0) + 1, len(LEVELS))
    asked[kata.id] = max(level, asked.get(kata.id, 0))
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(asked, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    title = (f"{kata.name}, hint {level} of {len(LEVELS)}", "bold")
    console.print(Text.assemble(title, (f" ({LEVELS[level - 1]})", "dim")))
    console.print(f"  {kata.key.hints[level - 1]}", markup=False)
    if level < len(LEVELS):
        console.print(Text(f"  more: kata hint {kata.name}", "dim"))
    return 0


def _asked(file: Path) -> dict[str, int]:
    """How many hints were given, by kata; a damaged file counts as none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    levels = data.items() if isinstance(data, dict) else ()
    return {kata: level for kata, level in levels if type(level) is int and 0 < level < 4}
