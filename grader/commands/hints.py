"""`kata hint`, `kata show`, `kata after`: show hints, the solution, the text for solved katas."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from grader.commands.arguments import confirm, one_kata, open_if_asked, open_option
from grader.exercise import repository
from grader.exercise.answer_key import HINTS
from grader.exercise.catalog import Kata, Submission, settings
from grader.exercise.repository import STATE, RepositoryError
from grader.exercise.variants import variants_of
from grader.record.ledger import read_ledger
from grader.record.status import FileState, status_of
from grader.report.completion import cost_comparison, solved_text
from pallascope.tools.regions import regions
from pallascope.tools.text import print_line, show

FILE = "hints.json"
MAX_OTHERS = 2


def hint_arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser)
    levels = range(1, len(HINTS) + 1)
    parser.add_argument(
        "level", nargs="?", type=int, choices=levels, help="this hint (default: the next one)"
    )
    open_option(parser)


def run_hint(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    file = root / STATE / FILE
    levels_shown = _read_levels(file)
    level = options.level or min(levels_shown.get(kata.id, 0) + 1, len(HINTS))
    levels_shown[kata.id] = max(level, levels_shown.get(kata.id, 0))
    title = (f"{kata.name}, hint {level} of {len(HINTS)}", "bold")
    console.print(Text.assemble(title, (f" ({HINTS[level - 1]})", "dim")))
    console.print(f"  {kata.key.hints[level - 1]}", markup=False)
    unsaved = _save_levels(file, levels_shown)
    if level == len(HINTS):
        console.print(Text(f"  the solution: kata show {kata.name}", "dim"))
    elif unsaved:
        print_line(
            console,
            f"  more: kata hint {kata.name} {level + 1} (the level can't be saved: {unsaved})",
        )
    else:
        console.print(Text(f"  more: kata hint {kata.name}", "dim"))
    open_if_asked(options, kata)
    return 0


def _save_levels(file: Path, given: dict[str, int]) -> str:
    """Save how many hints were given. Returns why it failed, or ""."""
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(given, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        return f"{error.strerror or error}, {error.filename}"
    return ""


def _read_levels(file: Path) -> dict[str, int]:
    """The level of the last hint of each kata; none if the file is damaged."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    levels = data.items() if isinstance(data, dict) else ()
    valid = range(1, len(HINTS) + 1)
    return {kata: level for kata, level in levels if type(level) is int and level in valid}


def show_arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")


def run_show(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    _require_shown_solutions(kata)
    if not options.yes and not confirm(f"Show the solution of {kata.name}?", console):
        return 1
    text = kata.solution.read_text(encoding="utf-8")
    for region in regions(text):
        console.print(Text(f"{kata.solution_name}:{region.first}", "cyan"))
        console.print(Syntax(region.body, "python", background_color="default"))
    return 0


def _require_shown_solutions(kata: Kata) -> None:
    if not settings(kata.root).solutions:
        raise RepositoryError(f"this course shows no solutions: ask your teacher for {kata.name}'s")


def after_arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser)
    parser.add_argument(
        "-y", "--yes", action="store_true", help="don't ask first, even if it isn't solved"
    )
    parser.add_argument(
        "--others",
        action="store_true",
        help=f"show up to {MAX_OTHERS} right kernels in other styles, with their cost",
    )


def run_after(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    status = status_of(kata, read_ledger(root))
    if status.last_pass is None and not options.yes and not _confirm_unsolved(kata, console):
        return 1
    if options.others:
        return _show_others(kata, console)
    text = solved_text(kata)
    if text is None:
        console.print(f"{kata.name} has no text to show after it is solved", markup=False)
        return 1
    show(text, console)
    solved = status.file_state is FileState.SOLVED
    if solved and kata.key.kernel and (line := _comparison_line(kata)):
        show(Text(f"\n  {line}"), console)
    return 0


def _confirm_unsolved(kata: Kata, console: Console) -> bool:
    """Ask whether to show an unsolved kata's text. Raises RepositoryError without a terminal."""
    warning = f"{kata.name} isn't solved yet, and this text explains its solution"
    return confirm(f"{warning}. Show it?", console, warning)


def _show_others(kata: Kata, console: Console) -> int:
    """Show variants of the solution. Returns 1 if the course has none. Raises RepositoryError."""
    _require_shown_solutions(kata)
    found = variants_of(kata)
    if not found:
        console.print(f"the course has no other kernels for {kata.name}", markup=False)
        return 1
    for variant in found[:MAX_OTHERS]:
        console.print(Text(f"{variant.style}: {variant.description()}", "bold"), soft_wrap=True)
        console.print(Syntax(variant.code(), "python", background_color="default"))
        other = Submission.of(kata, variant.text())
        if kata.key.kernel and (line := _comparison_line(other, "This one")):
            console.print(Text(f"{line}\n"), soft_wrap=True)
    if remaining := found[MAX_OTHERS:]:
        names = ", ".join(variant.style for variant in remaining)
        console.print(Text(f"others: {names}, in {found[0].path}", "dim"), soft_wrap=True)
    return 0


def _comparison_line(kata: Kata, subject: str = "Yours") -> str:
    """Compares the learner's launch with the solution's; "" if one of them can't be predicted."""
    from grader.grading import cost_studies  # slow to import, and only needed here
    from pallascope.tpu import libtpu

    if libtpu.unavailable_reason():
        return ""
    try:
        case = cost_studies.case_of(kata, None, 0, {})
        with cost_studies.study_client(None) as client:
            launch = cost_studies.study(client, kata, case)
    except ValueError:  # no prediction; kata cost says why
        return ""
    own, par = launch.own, launch.par
    if par is None or own.trouble or par.trouble or own.least or par.least:
        return ""
    return cost_comparison((own.bytes, par.bytes), (own.seconds, par.seconds), subject)
