"""`kata sync`, for authors: generates the katas and the READMEs' tables from the solutions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from grader.exercise import readmes, repository
from grader.exercise.repository import Synced
from grader.exercise.unwritten import Unwritten, unwritten


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a kata is not as generated",
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    results = repository.sync(root, options.check)
    for result in results:
        if result.outcome is not Synced.SAME:
            file = result.kata.path.relative_to(root).as_posix()
            console.print(f"{file}: {result.outcome.value}")
    tables = readmes.sync(root, options.check)
    for file in tables:
        outcome = "its table or count differs from the keys" if options.check else "written"
        console.print(f"{file.relative_to(root).as_posix()}: {outcome}")
    say_unwritten(unwritten(root), root, console)
    outcomes = [result.outcome for result in results]
    bad, held = outcomes.count(Synced.DIFFERS), outcomes.count(Synced.HELD)
    attempts = f"; {held} not compared: an attempt" if held else ""
    console.print(f"{len(results)} katas, {bad} not in step with their solutions{attempts}")
    return 1 if bad or (options.check and tables) else 0


def say_unwritten(files: Iterable[Unwritten], root: Path, console: Console) -> None:
    """One line for each file: which of its parts are still the template's."""
    for each in files:
        name, parts = each.file.relative_to(root).as_posix(), ", ".join(each.parts)
        console.print(f"{name}: still the template's: {parts}", markup=False, soft_wrap=True)
