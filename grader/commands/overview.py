"""`kata` alone: where one stands, and what to do next."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from grader.record.ledger import read_ledger
from grader.record.status import all_statuses
from grader.report.progress_map import notes, summary
from grader.tools.rendering import show

MORE = """
kata next --open   open it in your editor
kata watch         grade what you save, when you save it
kata --help        all commands"""


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    found = tuple(all_statuses(root, ledger))
    show(Group(summary(found, notes(root, ledger, found)), Text(MORE, "dim")), console)
    return 0
