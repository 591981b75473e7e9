"""`kata grade`: judge a file of samples, each once, in several processes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table

from grader.batch.batch import Batch
from grader.batch.page import results_page
from grader.batch.samples import Complaint, Sample, lines_of, read
from grader.batch.scores import SPEEDS, Scores
from grader.batch.store import Store
from grader.batch.terms import Terms
from grader.classroom import verified
from grader.classroom.clones import class_in
from grader.classroom.places import Course
from grader.commands import crews, judging, parts
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.model import MOST_STARS
from grader.tools.files import replace_text
from grader.tools.rendering import say, show


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "samples", type=Path, nargs="?", help='JSONL: {"task_id": …, "completion": …} a line'
    )
    parser.add_argument(
        "--repositories",
        type=Path,
        metavar="FOLDER",
        help="in place of samples: a folder with a clone of the course for each student",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the results there, as JSONL"
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the SQLite file that keeps verdicts (default: that of --out with .sqlite added)",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write scores and findings as a page, too"
    )
    crews.arguments(parser)
    judging.arguments(parser)
    parser.add_argument(
        "--k",
        type=_ks,
        default=(1, 5, 10),
        metavar="K,K",
        help="which pass@k to print (default: 1,5,10)",
    )
    parts.arguments(parser)


def _ks(text: str) -> tuple[int, ...]:
    return tuple(map(crews.positive, text.split(",")))


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 where a line could not be graded, or was not."""
    every = {kata.id: kata for kata in katas(root, SOLUTIONS)}
    if (options.samples is None) == (options.repositories is None):
        raise ValueError("give a file of samples, or --repositories FOLDER")
    parts.demand_sense(options)
    crews.demand_sense(options)
    _demand_other_files(options)
    if not options.merge:
        judging.demand_isolation(options)
    source = options.samples or options.repositories
    found = parts.of_shard(_found(options, every), options.shard)
    samples = [one for one in found if isinstance(one, Sample)]
    for one in found:
        if isinstance(one, Complaint):
            judging.tell(source, str(one))
        elif one.source is None:
            judging.tell(source, f"{_name(one)}: {one.why}")
    with Store(_store(options)) as store, judging.terminated_as_interrupted():
        merged = parts.merged(options, store)
        how, hire = parts.how(options, merged), crews.hire(options)
        batch = Batch(root, every, samples, store, how, hire)
        try:
            if merged:
                _say_merged(batch, merged, console)
            else:
                judging.judge(batch, console)
        finally:
            rows = batch.rows()
            replace_text(options.out, "".join(f"{json.dumps(row)}\n" for row in rows))
        untold = list(parts.untold(batch.missing(), merged)) if merged else []
    say(console, f"wrote {len(rows)} results to {options.out}")
    if rows:
        told = batch.scores(rows)
        show(Group(_passes(told, options.k), "", _fast(told)), console)
        if options.html:
            replace_text(options.html, results_page(rows, told, options.k))
            say(console, f"wrote {options.html}")
    names = {one.line: _name(one) for one in samples}
    untold += [f"{names[line]}: not graded: {why}" for line, why in batch.errors()]
    for each in untold:
        judging.tell(source, each)
    bad = any(isinstance(one, Complaint) or one.source is None for one in found)
    return int(bad or bool(untold))


def _found(options: argparse.Namespace, every: Mapping[str, Kata]) -> list[Sample | Complaint]:
    if options.repositories is None:
        return _read(options.samples, every)
    course = Course(every.values())
    standings = [course.standing(clone) for clone in class_in(options.repositories).clones]
    return list(verified.samples(standings, every))


def _read(file: Path, every: Mapping[str, Kata]) -> list[Sample | Complaint]:
    with open(file, "rb") as lines:
        found = list(read(lines_of(lines), every))
    if not found:
        raise ValueError(f"{file} is empty: give it a JSON object a line")
    return found


def _name(sample: Sample) -> str:
    """What a sample is called where something is wrong with it."""
    if student := sample.row.get(verified.STUDENT):
        return f"{student}: {sample.kata}"
    return f"line {sample.line}"


def _say_merged(batch: Batch, merged: Sequence[Terms], console: Console) -> None:
    stores = f"{len(merged)} stores" if len(merged) > 1 else "a store"
    say(console, f"seed {batch.seed}: merged {stores}, with verdicts on {batch.known} submissions")


def _store(options: argparse.Namespace) -> Path:
    return options.store or options.out.with_name(f"{options.out.name}.sqlite")


def _demand_other_files(options: argparse.Namespace) -> None:
    given = (options.samples, options.out, _store(options), options.html)
    files = [file.resolve() for file in given if file]
    if len(set(files)) < len(files):
        raise ValueError("samples, results, store and page have to be different files")
    for file in files:
        if file.is_dir():
            raise ValueError(f"{file} is a folder, and has to be a file")


def _passes(found: Sequence[Scores], ks: Sequence[int]) -> Table:
    """pass@k, a line for each track and star."""
    shown = [k for k in ks if any(each.passes[1, k] is not None for each in found)]
    table = _headed("track", "katas", "samples", "stars", *(f"pass@{k}" for k in shown))
    for each in found:
        for stars in range(1, MOST_STARS + 1):
            which = (each.name, str(each.tasks), str(each.samples)) if stars == 1 else ("", "", "")
            table.add_row(*which, "★" * stars, *(_cell(each.passes[stars, k]) for k in shown))
    return table


def _fast(found: Sequence[Scores]) -> Table:
    """fast_p, a line for each track."""
    table = _headed("track", *(f"fast_{p:g}" for p in SPEEDS))
    for each in found:
        table.add_row(each.name, *(_cell(each.fast[p]) for p in SPEEDS))
    return table


def _headed(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"
