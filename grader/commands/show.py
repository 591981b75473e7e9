"""`kata show`: the solution of a kata, after asking."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from grader.commands.arguments import confirmed, one_kata
from grader.exercise import repository
from grader.exercise.regions import regions


def arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    if not options.yes and not confirmed(f"Show the solution of {kata.name}?", console):
        return 1
    text = kata.solution.read_text(encoding="utf-8")
    for region in regions(text):
        console.print(Text(f"{kata.solution.relative_to(root).as_posix()}:{region.first}", "cyan"))
        console.print(Syntax(region.body, "python", background_color="default"))
    return 0
