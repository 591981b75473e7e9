"""`kata new`, for authors: the three files of a new kata."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from grader.exercise import repository


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="TRACK/NAME", help="such as 2_fusion/row_softmax")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.new(root, options.place)
    for file in (kata.solution, kata.key_path, kata.path):
        console.print(file.relative_to(root).as_posix())
    console.print(f"Write over them, then: kata sync && pytest tests -k {kata.name}")
    return 0
