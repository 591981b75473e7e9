"""`kata class report`: its options and its output."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType

from grader.batch.batch_run import Batch, How
from grader.batch.store import Store
from grader.classroom import class_report
from grader.classroom.class_report import as_csv, class_page
from grader.classroom.students import (
    Course,
    RegradedFile,
    StudentStanding,
    common_findings,
    find_clones,
    regraded_files,
    samples,
    stuck_katas,
)
from grader.commands import grade
from grader.commands.arguments import some_katas
from grader.exercise.catalog import Kata
from grader.exercise.repository import matching
from pallascope.tools.files import replace_text
from pallascope.tools.terminal import print_line, show

STORE = "verdicts.sqlite"


def class_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    text = "show a map of students and katas, and where the class is stuck"
    report = actions.add_parser("report", help=text, description=f"{text[0].upper()}{text[1:]}.")
    report.add_argument(
        "folder", type=Path, metavar="FOLDER", help="has a clone of the course for each student"
    )
    some_katas(report)
    report.add_argument(
        "--verify",
        action="store_true",
        help="grade the files again, and name students whose ledger claims more than they earn",
    )
    report.add_argument("--csv", type=Path, metavar="FILE", help="write a row per student and kata")
    report.add_argument("--html", type=Path, metavar="FILE", help="write a page for a browser")
    report.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help=f"with --verify: the SQLite file that keeps verdicts (default: FOLDER/{STORE})",
    )
    grade.executor_arguments(report)
    grade.judge_arguments(report)


def run_class(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 if a file could not be graded, or a ledger claims more than its files earn."""
    katas = matching(root, options.name)
    classroom = find_clones(options.folder)
    course = Course(katas)
    standings = [course.standing(clone) for clone in classroom.clones]
    verdicts, problems = None, []
    if options.verify:
        verdicts, problems = _regrade(options, root, katas, standings, console)
    parts: list[RenderableType] = [class_report.overview(standings, katas, console.width), ""]
    stuck = stuck_katas(standings)
    parts.append(class_report.stuck_table(stuck))
    findings = common_findings(verdicts or ())
    if verdicts is not None:
        parts += [
            "",
            class_report.findings_table(findings),
            "",
            *class_report.claim_tables(verdicts),
        ]
    parts += class_report.problem_lines(standings, classroom.others)
    show(Group(*parts), console)
    if options.csv:
        replace_text(options.csv, as_csv(standings, verdicts))
        print_line(console, f"wrote {options.csv}")
    if options.html:
        replace_text(options.html, class_page(standings, katas, stuck, verdicts, findings))
        print_line(console, f"wrote {options.html}")
    for line in problems:
        grade.print_problem(options.folder, line)
    return int(bool(problems) or any(file.overclaimed for file in verdicts or ()))


def _regrade(
    options: argparse.Namespace,
    root: Path,
    katas: Sequence[Kata],
    standings: Sequence[StudentStanding],
    console: Console,
) -> tuple[list[RegradedFile], list[str]]:
    """The regraded files, and messages for those that could not be graded."""
    grade.require_isolation(options)
    by_id = {kata.id: kata for kata in katas}
    all_samples = list(samples(standings, by_id))
    file = options.store or options.folder / STORE
    how = How(options.chip, options.isolation, options.seed, limit=options.limit)
    with Store(file) as store, grade.terminated_as_interrupted():
        batch = Batch(root, by_id, all_samples, store, how, grade.hire_executor(options))
        grade.judge(batch, console)
        rows = batch.rows()
        names = {sample.line: f"{sample.row['student']}: {sample.kata}" for sample in all_samples}
        problems = [f"{names[line]}: not graded: {why}" for line, why in batch.errors()]
    return regraded_files(rows), problems
