"""`kata show`: the solution of a kata, after asking."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from grader.exercise import repository
from grader.exercise.regions import regions
from grader.exercise.repository import RepositoryError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="one kata, as for pytest -k")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    if not options.yes:
        if not sys.stdin.isatty():
            raise RepositoryError("show asks before it spoils; without a terminal, say --yes")
        try:
            answer = console.input(f"Show the solution of {kata.name}? \\[y/N] ")
        except EOFError:
            return 1
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    text = kata.solution.read_text(encoding="utf-8")
    for region in regions(text):
        console.print(Text(f"{kata.solution.relative_to(root).as_posix()}:{region.first}", "cyan"))
        console.print(Syntax(region.body, "python", background_color="default"))
    return 0
