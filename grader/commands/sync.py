"""`kata sync`, for authors: generates the katas from the solutions."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from grader.exercise import repository
from grader.exercise.repository import Synced


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
    bad = [r for r in results if r.outcome in (Synced.DIFFERS, Synced.REFUSED)]
    console.print(f"{len(results)} katas, {len(bad)} not in step with their solutions")
    return 1 if bad else 0
