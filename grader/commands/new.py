"""`kata new`, for authors: the three files of a new kata, and what to write over in them."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from grader.commands.sync import say_unwritten
from grader.exercise import readmes, repository
from grader.exercise.keys import Kind
from grader.exercise.unwritten import unwritten


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="TRACK/NAME", help="such as 2_fusion/row_softmax")
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in Kind],
        default=Kind.KERNEL.value,
        help="what the learner writes (default: %(default)s)",
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.new(root, options.place, Kind(options.kind))
    readmes.begin(root, kata.track)
    tables = readmes.sync(root, check=False)
    for file in (kata.solution, kata.key_path, kata.path, *tables):
        console.print(file.relative_to(root).as_posix())
    own = (kata.solution, kata.key_path, readmes.readme_of(root, kata.track))
    say_unwritten([each for each in unwritten(root) if each.file in own], root, console)
    console.print(f"Write over these, then: kata sync && pytest tests -k {kata.name}")
    return 0
