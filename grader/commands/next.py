"""`kata next`: the first kata that is not solved."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import open_if_asked, open_option
from grader.exercise.catalog import Kata
from grader.record.ledger import read_ledger
from grader.record.status import FileState, all_statuses, next_kata
from grader.report.progress_map import nothing_left, standing
from grader.tools.rendering import show


def arguments(parser: argparse.ArgumentParser) -> None:
    open_option(parser)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    following = next_kata(all_statuses(root, ledger))
    if following is None:
        console.print(nothing_left(tuple(all_statuses(root, ledger))))
        return 0
    kata = following.kata
    console.print(Text(_where(kata), "cyan"))
    console.print(f"  {kata.key.title}: {kata.key.concept}", markup=False)
    if following.file_state is not FileState.TODO:
        show(Text(f"  {standing(following)}"), console)
    console.print(f"  pytest -k {kata.name}      stuck?  kata hint {kata.name}")
    open_if_asked(options, kata)
    return 0


def _where(kata: Kata) -> str:
    file, line = kata.where()
    return f"{file}:{line}"
