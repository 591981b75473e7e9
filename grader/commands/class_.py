"""`kata class report`: what a class has solved, and what it doesn't understand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType

from grader.batch.batch import Batch, How
from grader.batch.store import Store
from grader.classroom import table
from grader.classroom.clones import class_in
from grader.classroom.page import class_page
from grader.classroom.places import Course, Standing
from grader.classroom.rows import as_csv
from grader.classroom.stuck import stuck
from grader.classroom.verified import Earned, earned, samples, troubles
from grader.commands import crews, judging
from grader.commands.arguments import some_katas
from grader.exercise.catalog import Kata
from grader.exercise.repository import matching
from grader.tools.files import replace_text
from grader.tools.rendering import say, show

STORE = "verdicts.sqlite"


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    text = "a map by student and kata, and where the class is stuck"
    report = actions.add_parser("report", help=text, description=f"{text[0].upper()}{text[1:]}.")
    report.add_argument(
        "folder", type=Path, metavar="FOLDER", help="holds a clone of the course for each student"
    )
    some_katas(report)
    report.add_argument(
        "--verify",
        action="store_true",
        help="grade the files anew, and say whose ledger claims what its files don't earn",
    )
    report.add_argument("--csv", type=Path, metavar="FILE", help="write a row by student and kata")
    report.add_argument("--html", type=Path, metavar="FILE", help="write a page for a browser")
    report.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help=f"with --verify: the SQLite file that keeps verdicts (default: FOLDER/{STORE})",
    )
    crews.arguments(report)
    judging.arguments(report)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 where a file could not be graded, or a ledger claims what its files don't earn."""
    katas = matching(root, options.name)
    found = class_in(options.folder)
    course = Course(katas)
    standings = [course.standing(clone) for clone in found.clones]
    verdicts, untold = None, []
    if options.verify:
        verdicts, untold = _verified(options, root, katas, standings, console)
    parts: list[RenderableType] = [table.overview(standings, katas, console.width), ""]
    lines = stuck(standings)
    parts.append(table.where_stuck(lines))
    told = troubles(verdicts or ())
    if verdicts is not None:
        parts += ["", table.findings(told), "", *table.claims(verdicts)]
    parts += table.problems(standings, found.others)
    show(Group(*parts), console)
    if options.csv:
        replace_text(options.csv, as_csv(standings, verdicts))
        say(console, f"wrote {options.csv}")
    if options.html:
        replace_text(options.html, class_page(standings, katas, lines, verdicts, told))
        say(console, f"wrote {options.html}")
    for line in untold:
        judging.tell(options.folder, line)
    return int(bool(untold) or any(one.overclaimed for one in verdicts or ()))


def _verified(
    options: argparse.Namespace,
    root: Path,
    katas: Sequence[Kata],
    standings: Sequence[Standing],
    console: Console,
) -> tuple[list[Earned], list[str]]:
    """What the files earn, and what to say of those that could not be graded."""
    judging.demand_isolation(options)
    by_id = {kata.id: kata for kata in katas}
    asked = list(samples(standings, by_id))
    file = options.store or options.folder / STORE
    how = How(options.chip, options.isolation, options.seed, limit=options.limit)
    with Store(file) as store, judging.terminated_as_interrupted():
        batch = Batch(root, by_id, asked, store, how, crews.hire(options))
        judging.judge(batch, console)
        rows = batch.rows()
        names = {one.line: f"{one.row['student']}: {one.kata}" for one in asked}
        untold = [f"{names[line]}: not graded: {why}" for line, why in batch.errors()]
    return earned(rows), untold
