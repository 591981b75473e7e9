"""`kata progress`: what is solved, without running anything."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from grader.commands.arguments import some_katas
from grader.exercise.repository import matching
from grader.record.history import history
from grader.record.ledger import Ledger, read_ledger
from grader.record.status import KataStatus, status_of
from grader.report import badge
from grader.report.log import log_of
from grader.report.progress_map import notes, progress_map
from grader.tools.git import GitError, git_in
from grader.tools.rendering import show


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--log", action="store_true", help="list what was solved when, from git")
    ways.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="draw it for a README; FILE is replaced only if kata progress drew it",
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    found = tuple(status_of(kata, ledger) for kata in matching(root, options.name))
    if options.svg:
        badge.write_badge(options.svg, found)
        console.print(f"wrote {options.svg}", markup=False, soft_wrap=True)
        return 0
    if options.log:
        return _log(root, ledger, found if options.name else (), console)
    show(progress_map(found, notes(root, ledger, found)), console)
    return 0


def _log(root: Path, ledger: Ledger, found: Sequence[KataStatus], console: Console) -> int:
    """The history of these katas; of none, that of all that the ledger ever knew."""
    about = {one.kata.id for one in found}
    told = Ledger(tuple(one for one in ledger.passes if not about or one.kata in about))
    missing = list(ledger.warnings)
    try:
        past = history(told, git_in(root))
    except GitError as error:
        past = history(told, None)
        missing.append(f"no git here ({error}): these are the ledger's own days")
    if past.cut:
        missing.append(
            f"a shallow clone: commits before {past.cut} are not here, and what they brought has "
            "the ledger's own days; git fetch --unshallow brings them"
        )
    show(log_of(past, datetime.date.today(), tuple(missing)), console)
    return 0
