"""`kata after`: what a solved kata tells, and how the learner's solution compares."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import confirmed, one_kata
from grader.exercise import repository
from grader.exercise.catalog import Kata
from grader.record.ledger import read_ledger
from grader.record.status import FileState, status_of
from grader.report.solved import compared, solved_text
from grader.tools.rendering import show


def arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser)
    parser.add_argument(
        "-y", "--yes", action="store_true", help="also where it is not solved, without asking"
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    status = status_of(kata, read_ledger(root))
    if status.last_pass is None and not options.yes and not _asked(kata, console):
        return 1
    text = solved_text(kata)
    if text is None:
        console.print(f"{kata.name} has no text for afterwards", markup=False)
        return 1
    show(text, console)
    solved = status.file_state is FileState.SOLVED
    if solved and kata.key.kernel and (line := _compared(kata)):
        show(Text(f"\n  {line}"), console)
    return 0


def _asked(kata: Kata, console: Console) -> bool:
    """Whether the learner wants it before solving. Raises RepositoryError where nobody is asked."""
    said = f"{kata.name} is not solved yet, and this tells how its solution works"
    return confirmed(f"{said}. Show it?", console, said)


def _compared(kata: Kata) -> str:
    """How the learner's launch compares with the solution's; "" where one can't be predicted."""
    from grader.grading import studies  # takes its time, and only this line needs it
    from grader.tpu import libtpu

    if libtpu.why_not():
        return ""
    try:
        case = studies.case_of(kata, None, 0, {})
        with studies.studio(None) as asking:
            launch = studies.study(asking, kata, case)
    except ValueError:  # what can't be studied: kata cost says why
        return ""
    own, par = launch.own, launch.par
    if par is None or own.trouble or par.trouble or own.least or par.least:
        return ""
    return compared((own.bytes, par.bytes), (own.seconds, par.seconds))
