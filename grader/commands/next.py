"""`kata next`: the first kata that is not solved."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.exercise.catalog import Kata
from grader.record.ledger import read_ledger
from grader.record.status import FileState, all_statuses, next_kata
from grader.report.progress_map import standing
from grader.tools.rendering import show


def arguments(parser: argparse.ArgumentParser) -> None:
    """Takes nothing."""


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    found = all_statuses(root, read_ledger(root))
    one = next_kata(found)
    if one is None:
        console.print(
            "Every kata is solved."
            if all(one.file_state is FileState.SOLVED for one in found)
            else "Every kata has been edited. pytest -k kata tells which are solved."
        )
        return 0
    console.print(Text(_where(one.kata), "cyan"))
    console.print(f"  {one.kata.key.title}: {one.kata.key.concept}", markup=False)
    if one.file_state is not FileState.TODO:
        show(Text(f"  {standing(one)}"), console)
    console.print(f"  pytest -k {one.kata.name}      stuck?  kata hint {one.kata.name}")
    return 0


def _where(kata: Kata) -> str:
    file, line = kata.where()
    return f"{file}:{line}"
