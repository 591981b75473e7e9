"""`kata grade`, `kata baseline`, `kata tasks`, `kata class report`: grade many submissions.

`kata tasks` writes prompts, `kata baseline` writes samples with known verdicts, and `kata grade`
grades samples in local processes or on a Ray cluster, also in shards that are merged later.
`kata class report` reads, and may grade, the clones of a class.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress import Progress
from rich.table import Table

from grader.api.examiner import DEFAULT_LIMIT
from grader.batch.batch_run import Batch, How, Shard, shard_of
from grader.batch.evaluation import task
from grader.batch.executor import (
    Executor,
    ExecutorError,
    ExecutorFactory,
    LocalExecutor,
    Outcome,
    Setup,
    cores,
)
from grader.batch.samples import (
    Complaint,
    Sample,
    lines_of,
    read,
)
from grader.batch.scores import (
    SPEEDS,
    BaselineComparison,
    Scores,
    compared,
    results_page,
    samples_of,
)
from grader.batch.store import Store, Terms, merge
from grader.classroom import class_report, students
from grader.classroom.class_report import (
    Points,
    RegradedFile,
    as_csv,
    class_page,
    common_findings,
    grades_csv,
    read_class,
    regraded_files,
    stuck_katas,
)
from grader.classroom.students import (
    Course,
    StudentStanding,
    find_clones,
)
from grader.commands.arguments import some_katas
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.repository import matching
from grader.sandbox.isolation import Isolation, NotIsolated, demanded
from grader.verdict import MAX_STARS
from pallascope.tools.files import replace_text
from pallascope.tools.text import print_line, printable, show
from pallascope.tpu.chips import CHIPS, DEFAULT


def executor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=positive_integer,
        metavar="N",
        help="how many samples to grade at a time (default: one per core of this machine or of the "
        "cluster)",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="grade on the nodes of the Ray cluster at HOST:PORT; auto: this machine's cluster",
    )


def positive_integer(text: str) -> int:
    """Raises ArgumentTypeError or ValueError if the text isn't a whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def check_executor_options(options: argparse.Namespace) -> None:
    """Raise ValueError if --ray contradicts other options, or no cluster answers."""
    if options.ray is None:
        return
    if options.shard:
        raise ValueError("give --ray or --shard, not both: a cluster shares out the samples itself")
    if options.merge:
        raise ValueError("give --ray or --merge, not both: --merge judges nothing")
    from grader.batch import ray_cluster

    ray_cluster.demand(options.ray)


def hire_executor(options: argparse.Namespace) -> ExecutorFactory:
    """Starts the executor that the options ask for."""
    if options.ray is None:
        return functools.partial(LocalExecutor, count=options.workers or cores())
    return functools.partial(_on_ray, options.ray, options.workers)


def _on_ray(address: str, count: int | None, setup: Setup) -> AbstractContextManager[Executor]:
    from grader.batch.ray_cluster import ray_executor

    return ray_executor(setup, address, count, _print_message)


def _print_message(text: str) -> None:
    print(f"kata: {text}", file=sys.stderr)


_MAX_LINES = 8  # line numbers in a message


def shard_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="judge only part I of N of the samples; each part needs its own --out, and all parts "
        "the same --seed",
    )
    parser.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        metavar="STORE",
        help="judge nothing: merge the verdicts in the stores of shards, and write results and "
        "scores as a single run would",
    )


def _shard(text: str) -> Shard:
    try:
        return Shard.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_shard_options(options: argparse.Namespace) -> None:
    """Raise ValueError if the options contradict each other."""
    if options.shard and options.merge:
        raise ValueError("give --shard or --merge, not both: --merge judges nothing")
    if options.shard and options.seed is None:
        raise ValueError("--shard needs --seed: all shards must draw the same hidden cases")


def select_shard(
    found: Sequence[Sample | Complaint], shard: Shard | None
) -> Sequence[Sample | Complaint]:
    """The lines of a shard. Lines that can't be judged belong to the first shard."""
    return [one for one in found if one in shard] if shard else found


def merge_given_stores(options: argparse.Namespace, store: Store) -> tuple[Terms, ...]:
    """Merge the stores of --merge into `store`. Returns the terms of each. Raises ValueError."""
    if not options.merge:
        return ()
    terms = merge(options.merge, store)
    if options.seed not in (None, terms[0].seed):
        raise ValueError(f"--seed is {options.seed}, but the stores have seed {terms[0].seed}")
    return terms


def judging_settings(options: argparse.Namespace, merged: Sequence[Terms]) -> How:
    """The settings for judging samples; with merged stores, those of the stores."""
    if merged:
        (chip,), seed = merged[0].chips, merged[0].seed
        return How(chip, options.isolation, seed, options.k, versions=merged[0].versions)
    shard = str(options.shard or "")
    settings = (options.chip, options.isolation, options.seed, options.k, options.limit)
    return How(*settings, shard=shard)


def unjudged_samples(samples: Sequence[Sample], terms: Iterable[Terms]) -> Iterator[str]:
    """Messages for samples without a verdict in any merged store, with the shard to run."""
    counts = {Shard.of(each.shard).count for each in terms if each.shard}
    if not samples:
        return
    if len(counts) != 1:
        yield f"{_numbers(samples)}: no store has a verdict"
        return
    (count,) = counts
    by_shard: dict[Shard, list[Sample]] = {}
    for one in samples:
        by_shard.setdefault(shard_of(one, count), []).append(one)
    for shard in sorted(by_shard, key=lambda shard: shard.number):
        yield f"{_numbers(by_shard[shard])}: no verdict: run --shard {shard} (again), then merge"


def _numbers(samples: Sequence[Sample]) -> str:
    if len(samples) == 1:
        return f"line {samples[0].line}"
    numbers = ", ".join(str(one.line) for one in samples[:_MAX_LINES])
    more = len(samples) - _MAX_LINES
    return f"lines {numbers}" + (f" and {more} more" if more > 0 else "")


def judge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="seed of the hidden cases (default: the store's)")
    parser.add_argument(
        "--chip",
        choices=CHIPS,
        default=DEFAULT,
        help="the TPU to compile for and to predict on (default: %(default)s)",
    )
    parser.add_argument(
        "--isolation",
        choices=[isolation.value for isolation in Isolation],
        default=Isolation.REQUIRE.value,
        help="keep submissions from files, network and processes: require (default) grades nothing "
        "without that, auto does it as far as the kernel can, off doesn't",
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=DEFAULT_LIMIT,
        metavar="SECONDS",
        help="time limit for all hidden cases of a submission together (default: %(default)g)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError("must be above 0")
    return seconds


def require_isolation(options: argparse.Namespace) -> None:
    """Raise ValueError if this machine lacks the required isolation. Cluster nodes check theirs."""
    if options.ray is not None:
        return
    try:
        demanded(Isolation(options.isolation))
    except NotIsolated as error:
        raise ValueError(f"{error}; --isolation auto grades anyway") from None


def judge(batch: Batch, console: Console) -> None:
    """Judge the samples without a verdict in the store. Raises ValueError if grading can't work."""
    jobs, known_count = batch.waiting(), batch.known
    print_line(
        console, f"seed {batch.seed}: {len(jobs)} submissions to judge, {known_count} in the store"
    )
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("grading", total=len(jobs))
        try:
            with contextlib.closing(batch.judge(jobs)) as judged:
                printed = {""}
                for outcome in judged:
                    if (warning := _not_isolated(outcome)) not in printed:
                        print_line(console, warning)
                    printed |= {warning}
                    progress.advance(bar)
        except ExecutorError as error:
            raise ValueError(f"kernels cannot be graded here: {error}") from None


def _not_isolated(outcome: Outcome) -> str:
    """Why a submission was graded without isolation; "" if it was isolated or not graded."""
    level = json.loads(outcome.verdict).get("isolation", "") if outcome.verdict else ""
    return level if level.startswith("not isolated") else ""


def print_problem(source: Path, text: str) -> None:
    """Print a problem of a line or a file to stderr."""
    print(printable(f"{source}: {text}"), file=sys.stderr)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: verdicts are written, and all processes end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tasks_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the tasks there, as JSONL"
    )
    parser.add_argument(
        "--chip", choices=CHIPS, default=DEFAULT, help="the TPU to name (default: %(default)s)"
    )


def run_tasks(options: argparse.Namespace, root: Path, console: Console) -> int:
    chosen = matching(root, options.name)
    lines = [json.dumps(task(kata, options.chip), ensure_ascii=False) for kata in chosen]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print_line(console, f"wrote {len(lines)} tasks to {options.out}")
    return 0


def baseline_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write solutions and known mistakes there, as samples for `kata grade`",
    )
    action.add_argument(
        "--compare",
        type=Path,
        metavar="RESULTS",
        help="compare results of `kata grade` with the expected verdicts",
    )


def run_baseline(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 if a result differs from the expected one."""
    chosen = matching(root, options.name)
    if options.out:
        rows = [json.dumps(row) for kata in chosen for row in samples_of(kata)]
        options.out.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        print_line(console, f"wrote {len(rows)} samples to {options.out}")
        return 0
    ids = {kata.id for kata in chosen}
    comparison = compared(
        [row for row in _read_results(options.compare) if row.get("task_id") in ids]
    )
    show(_comparison_table(comparison), console)
    for row in comparison.otherwise:
        phrase = (row.get("finding") or {}).get("phrase", "")
        print_line(console, f"{row['id']} ({row['title']}): {row['stars']} stars; {phrase}")
    if comparison.skipped:
        print_line(
            console,
            f"{comparison.skipped} could not be judged here: {_not_judged_reason(options.compare)}",
        )
    return int(bool(comparison.otherwise))


def _read_results(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    try:
        rows = [json.loads(line) for line in lines if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} isn't valid JSONL: {error}") from None
    return [row for row in rows if isinstance(row, dict)]


def _not_judged_reason(file: Path) -> str:
    return next(row["not_judged"] for row in _read_results(file) if row.get("not_judged"))


def _comparison_table(found: BaselineComparison) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading, justify in (("expected", "left"), ("samples", "right"), ("stars agree", "right")):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("found by the expected check", justify="right", no_wrap=True)
    for each in found.by_check:
        table.add_row(each.check, str(each.count), str(each.stars), str(each.same))
    rows = found.by_check
    sums = (sum(each.count for each in rows), sum(e.stars for e in rows), sum(e.same for e in rows))
    table.add_row("all", *map(str, sums))
    return table


def grade_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "samples", type=Path, nargs="?", help='JSONL: {"task_id": …, "completion": …} per line'
    )
    parser.add_argument(
        "--repositories",
        type=Path,
        metavar="FOLDER",
        help="instead of samples: a folder with a clone of the course for each student",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the results there, as JSONL"
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the SQLite file that keeps verdicts (default: the name of --out plus .sqlite)",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write scores and findings as a page"
    )
    executor_arguments(parser)
    judge_arguments(parser)
    parser.add_argument(
        "--k",
        type=_k_values,
        default=(1, 5, 10),
        metavar="K,K",
        help="values of k for pass@k (default: 1,5,10)",
    )
    shard_arguments(parser)


def _k_values(text: str) -> tuple[int, ...]:
    return tuple(map(positive_integer, text.split(",")))


def run_grade(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 if a line was not graded."""
    all_katas = {kata.id: kata for kata in katas(root, SOLUTIONS)}
    if (options.samples is None) == (options.repositories is None):
        raise ValueError("give a file of samples, or --repositories FOLDER")
    check_shard_options(options)
    check_executor_options(options)
    _require_distinct_files(options)
    if not options.merge:
        require_isolation(options)
    source = options.samples or options.repositories
    lines = select_shard(_read_samples(options, all_katas), options.shard)
    samples = [one for one in lines if isinstance(one, Sample)]
    for one in lines:
        if isinstance(one, Complaint):
            print_problem(source, str(one))
        elif one.source is None:
            print_problem(source, f"{_sample_name(one)}: {one.why}")
    with Store(_store_path(options)) as store, terminated_as_interrupted():
        merged = merge_given_stores(options, store)
        how, hire = judging_settings(options, merged), hire_executor(options)
        batch = Batch(root, all_katas, samples, store, how, hire)
        try:
            if merged:
                _print_merged(batch, merged, console)
            else:
                judge(batch, console)
        finally:
            rows = batch.rows()
            replace_text(options.out, "".join(f"{json.dumps(row)}\n" for row in rows))
        problems = list(unjudged_samples(batch.missing(), merged)) if merged else []
    print_line(console, f"wrote {len(rows)} results to {options.out}")
    if rows:
        scores = batch.scores(rows)
        show(Group(_pass_table(scores, options.k), "", _fast_table(scores)), console)
        if options.html:
            replace_text(options.html, results_page(rows, scores, options.k))
            print_line(console, f"wrote {options.html}")
    names = {one.line: _sample_name(one) for one in samples}
    problems += [f"{names[line]}: not graded: {why}" for line, why in batch.errors()]
    for problem in problems:
        print_problem(source, problem)
    bad = any(isinstance(one, Complaint) or one.source is None for one in lines)
    return int(bad or bool(problems))


def _read_samples(
    options: argparse.Namespace, every: Mapping[str, Kata]
) -> list[Sample | Complaint]:
    if options.repositories is None:
        return _read_sample_file(options.samples, every)
    course = Course(every.values())
    standings = [course.standing(clone) for clone in find_clones(options.repositories).clones]
    return list(students.samples(standings, every))


def _read_sample_file(file: Path, every: Mapping[str, Kata]) -> list[Sample | Complaint]:
    with open(file, "rb") as lines:
        found = list(read(lines_of(lines), every))
    if not found:
        raise ValueError(f"{file} is empty: expected one JSON object per line")
    return found


def _sample_name(sample: Sample) -> str:
    """The name of a sample in messages."""
    if student := sample.row.get(students.STUDENT):
        return f"{student}: {sample.kata}"
    return f"line {sample.line}"


def _print_merged(batch: Batch, merged: Sequence[Terms], console: Console) -> None:
    stores = f"{len(merged)} stores" if len(merged) > 1 else "a store"
    print_line(
        console, f"seed {batch.seed}: merged {stores}, with verdicts on {batch.known} submissions"
    )


def _store_path(options: argparse.Namespace) -> Path:
    return options.store or options.out.with_name(f"{options.out.name}.sqlite")


def _require_distinct_files(options: argparse.Namespace) -> None:
    given = (options.samples, options.out, _store_path(options), options.html)
    files = [file.resolve() for file in given if file]
    if len(set(files)) < len(files):
        raise ValueError("samples, results, store and page must be different files")
    for file in files:
        if file.is_dir():
            raise ValueError(f"{file} is a folder, not a file")


def _pass_table(found: Sequence[Scores], ks: Sequence[int]) -> Table:
    """pass@k, a line for each track and star."""
    shown = [k for k in ks if any(each.passes[1, k] is not None for each in found)]
    table = _table_with_headings(
        "track", "katas", "samples", "stars", *(f"pass@{k}" for k in shown)
    )
    for each in found:
        for stars in range(1, MAX_STARS + 1):
            which = (each.name, str(each.tasks), str(each.samples)) if stars == 1 else ("", "", "")
            table.add_row(*which, "★" * stars, *(_cell(each.passes[stars, k]) for k in shown))
    return table


def _fast_table(found: Sequence[Scores]) -> Table:
    """fast_p, a line for each track."""
    table = _table_with_headings("track", *(f"fast_{p:g}" for p in SPEEDS))
    for each in found:
        table.add_row(each.name, *(_cell(each.fast[p]) for p in SPEEDS))
    return table


def _table_with_headings(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


#: The file in FOLDER that keeps verdicts of `kata class report --verify`.
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
    report.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="a CSV file with the columns name, login, repository and email: report these students",
    )
    report.add_argument(
        "--until",
        metavar="DATE",
        help="read the newest commit that isn't later than an ISO date or date-time",
    )
    report.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="points for each star of these katas (default: 1); the last one that matches counts",
    )
    report.add_argument(
        "--grades", type=Path, metavar="FILE", help="write the roster's points, for --format"
    )
    report.add_argument(
        "--format",
        choices=class_report.PLATFORMS,
        help="the learning platform that --grades is for",
    )
    report.add_argument("--csv", type=Path, metavar="FILE", help="write a row per student and kata")
    report.add_argument("--html", type=Path, metavar="FILE", help="write a page for a browser")
    report.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help=f"with --verify: the SQLite file that keeps verdicts (default: FOLDER/{STORE})",
    )
    executor_arguments(report)
    judge_arguments(report)


def run_class(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 if a file could not be graded, or a ledger claims more than its files earn."""
    katas = matching(root, options.name)
    _check_class_options(options)
    weights = class_report.weights(root, options.weight)
    until = students.parse_deadline(options.until) if options.until else None
    roster = students.read_roster(options.roster) if options.roster else None
    standings, notes = read_class(options.folder, Course(katas), roster, until)
    notes += class_report.not_in_grades(options.format, roster) if roster else []
    verdicts, problems = None, []
    if options.verify:
        verdicts, problems = _regrade(options, root, katas, standings, console)
    points = Points(weights, verdicts) if options.weight or options.grades else None
    stuck = stuck_katas(standings)
    findings = common_findings(verdicts or ())
    parts: list[RenderableType] = [
        class_report.overview(standings, katas, console.width, points),
        "",
        class_report.stuck_table(stuck),
    ]
    if verdicts is not None:
        parts += ["", class_report.findings_table(findings), ""]
        parts += class_report.claim_tables(verdicts)
    parts += class_report.problem_lines(standings, notes)
    show(Group(*parts), console)
    if options.csv:
        replace_text(options.csv, as_csv(standings, verdicts, points))
        print_line(console, f"wrote {options.csv}")
    if options.html:
        page = class_page(standings, katas, stuck, verdicts, findings, points, notes)
        replace_text(options.html, page)
        print_line(console, f"wrote {options.html}")
    if roster and points and options.grades:
        pairs = list(zip(roster.rows, standings, strict=True))
        replace_text(options.grades, grades_csv(options.format, pairs, points, katas))
        most = class_report.format_points(points.maximum(katas))
        print_line(console, f"wrote {options.grades}: at most {most} points")
    for line in problems:
        print_problem(options.folder, line)
    return int(bool(problems) or any(file.overclaimed for file in verdicts or ()))


def _check_class_options(options: argparse.Namespace) -> None:
    """Raise ValueError if the options of a class's report contradict each other."""
    if options.grades and not options.roster:
        raise ValueError("--grades needs --roster, which has the students' names and e-mails")
    if bool(options.grades) != bool(options.format):
        raise ValueError(
            f"give --grades and --format ({', '.join(class_report.PLATFORMS)}) together"
        )
    given = (options.roster, options.csv, options.html, options.grades, options.store)
    files = [file.resolve() for file in given if file]
    if len(set(files)) < len(files):
        raise ValueError("--roster, --csv, --html, --grades and --store must be different files")


def _regrade(
    options: argparse.Namespace,
    root: Path,
    katas: Sequence[Kata],
    standings: Sequence[StudentStanding],
    console: Console,
) -> tuple[list[RegradedFile], list[str]]:
    """The regraded files, and messages for those that could not be graded."""
    require_isolation(options)
    by_id = {kata.id: kata for kata in katas}
    all_samples = list(students.samples(standings, by_id))
    file = options.store or options.folder / STORE
    how = How(options.chip, options.isolation, options.seed, limit=options.limit)
    with Store(file) as store, terminated_as_interrupted():
        batch = Batch(root, by_id, all_samples, store, how, hire_executor(options))
        judge(batch, console)
        rows = batch.rows()
        names = {sample.line: f"{sample.row['student']}: {sample.kata}" for sample in all_samples}
        problems = [f"{names[line]}: not graded: {why}" for line, why in batch.errors()]
    return regraded_files(rows), problems
