"""`kata sync`, for authors: generates the katas from the solutions."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from grader.exercise import repository
from grader.exercise.repository import Synced


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if they differ")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    results = repository.sync(root, options.check)
    for result in results:
        if result.outcome is not Synced.SAME:
            file = result.kata.path.relative_to(root).as_posix()
            console.print(f"{file}: {result.outcome.value}")
    outcomes = [result.outcome for result in results]
    bad, held = outcomes.count(Synced.DIFFERS), outcomes.count(Synced.HELD)
    attempts = f"; {held} not compared: an attempt" if held else ""
    console.print(f"{len(results)} katas, {bad} not in step with their solutions{attempts}")
    return 1 if bad else 0
