"""`kata new` and `kata sync`, for authors: write a new kata's files, generate stubs and tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from grader.exercise import readmes, repository
from grader.exercise.key_tables import KataKind
from grader.exercise.readmes import TemplateLeftovers, template_leftovers
from grader.exercise.repository import SyncOutcome


def sync_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a generated file is out of date",
    )


def run_sync(options: argparse.Namespace, root: Path, console: Console) -> int:
    repository.require_own_solutions(root)
    results = repository.sync(root, options.check)
    for result in results:
        if result.outcome is not SyncOutcome.SAME:
            file = result.kata.path.relative_to(root).as_posix()
            console.print(f"{file}: {result.outcome.value}")
    tables = readmes.sync(root, options.check)
    for file in tables:
        outcome = "its table or count differs from the keys" if options.check else "written"
        console.print(f"{file.relative_to(root).as_posix()}: {outcome}")
    print_leftovers(template_leftovers(root), root, console)
    outcomes = [result.outcome for result in results]
    bad, held = outcomes.count(SyncOutcome.DIFFERS), outcomes.count(SyncOutcome.HELD)
    attempts = f"; {held} not compared: an attempt" if held else ""
    console.print(f"{len(results)} katas, {bad} not in step with their solutions{attempts}")
    return 1 if bad or (options.check and tables) else 0


def print_leftovers(files: Iterable[TemplateLeftovers], root: Path, console: Console) -> None:
    """Print a line for each file with parts that are still the template's text."""
    for file in files:
        name, parts = file.file.relative_to(root).as_posix(), ", ".join(file.parts)
        console.print(f"{name}: still the template's: {parts}", markup=False, soft_wrap=True)


def new_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="TRACK/NAME", help="such as 2_fusion/row_softmax")
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in KataKind],
        default=KataKind.KERNEL.value,
        help="what the learner writes (default: %(default)s)",
    )


def run_new(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.new_kata(root, options.place, KataKind(options.kind))
    readmes.create_track_readme(root, kata.track)
    tables = readmes.sync(root, check=False)
    for file in (kata.solution, kata.key_path, kata.path, *tables):
        console.print(file.relative_to(root).as_posix())
    own = (kata.solution, kata.key_path, readmes.readme_of(root, kata.track))
    print_leftovers([each for each in template_leftovers(root) if each.file in own], root, console)
    console.print(f"Edit these files, then: kata sync && pytest tests -k {kata.name}")
    return 0
