"""`kata grade`: judge a file of samples, each once, in several processes."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.progress import Progress
from rich.table import Table

from grader.api.examiner import LIMIT
from grader.batch.batch import Batch
from grader.batch.crew import Hopeless
from grader.batch.samples import Complaint, Sample, read
from grader.batch.scores import SPEEDS, Scores
from grader.batch.store import Store
from grader.batch.terms import Terms
from grader.commands import crews, parts
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.model import MOST_STARS
from grader.sandbox.isolation import Isolation, NotIsolated, demanded
from grader.tools.rendering import say, show
from grader.tpu.chips import CHIPS, DEFAULT


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("samples", type=Path, help='JSONL: {"task_id": …, "completion": …} a line')
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the results there, as JSONL"
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the SQLite file that keeps verdicts (default: that of --out with .sqlite added)",
    )
    crews.arguments(parser)
    parser.add_argument(
        "--seed", type=int, help="draw the hidden cases with it (default: the store's own)"
    )
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
        help="keep samples from files, network and processes: or grade nothing (require, the "
        "default), as far as the kernel can (auto), not at all (off)",
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=LIMIT,
        metavar="SECONDS",
        help="how long all hidden cases of one sample may take together (default: %(default)g)",
    )
    parser.add_argument(
        "--k",
        type=_ks,
        default=(1, 5, 10),
        metavar="K,K",
        help="which pass@k to print (default: 1,5,10)",
    )
    parts.arguments(parser)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError("has to be above 0")
    return seconds


def _ks(text: str) -> tuple[int, ...]:
    return tuple(map(crews.positive, text.split(",")))


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 where a line could not be graded, or was not."""
    every = {kata.id: kata for kata in katas(root, SOLUTIONS)}
    parts.demand_sense(options)
    crews.demand_sense(options)
    _demand_other_files(options)
    if not options.merge and options.ray is None:  # the nodes of a cluster decide for themselves
        _demand_isolation(options)
    found = parts.of_shard(_read(options.samples, every), options.shard)
    samples = [one for one in found if isinstance(one, Sample)]
    for one in found:
        if isinstance(one, Complaint):
            _tell(options.samples, str(one))
        elif one.source is None:
            _tell(options.samples, f"line {one.line}: {one.why}")
    with Store(_store(options)) as store, _terminated_as_interrupted():
        merged = parts.merged(options, store)
        how, hire = parts.how(options, merged), crews.hire(options)
        batch = Batch(root, every, samples, store, how, hire)
        try:
            if merged:
                _say_merged(batch, merged, console)
            else:
                _judge(batch, console)
        except Hopeless as error:
            raise ValueError(f"kernels cannot be graded here: {error}") from None
        finally:
            rows = batch.rows()
            _write(options.out, rows)
        untold = list(parts.untold(batch.missing(), merged)) if merged else []
    say(console, f"wrote {len(rows)} results to {options.out}")
    if rows:
        told = batch.scores(rows)
        show(Group(_passes(told, options.k), "", _fast(told)), console)
    untold += [f"line {line}: not graded: {why}" for line, why in batch.errors()]
    for each in untold:
        _tell(options.samples, each)
    bad = any(isinstance(one, Complaint) or one.source is None for one in found)
    return int(bad or bool(untold))


def _read(file: Path, every: Mapping[str, Kata]) -> list[Sample | Complaint]:
    with open(file, "rb") as lines:
        found = list(read(lines, every))
    if not found:
        raise ValueError(f"{file} is empty: give it a JSON object a line")
    return found


def _demand_isolation(options: argparse.Namespace) -> None:
    try:
        demanded(Isolation(options.isolation))
    except NotIsolated as error:
        raise ValueError(f"{error}; --isolation auto grades all the same") from None


def _say_merged(batch: Batch, merged: Sequence[Terms], console: Console) -> None:
    stores = f"{len(merged)} stores" if len(merged) > 1 else "a store"
    say(console, f"seed {batch.seed}: merged {stores}, with verdicts on {batch.known} submissions")


def _judge(batch: Batch, console: Console) -> None:
    jobs, known = batch.waiting(), batch.known
    say(console, f"seed {batch.seed}: {len(jobs)} submissions to judge, {known} in the store")
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("grading", total=len(jobs))
        with contextlib.closing(batch.judge(jobs)) as judged:
            for _ in judged:
                progress.advance(bar)


def _store(options: argparse.Namespace) -> Path:
    return options.store or options.out.with_name(f"{options.out.name}.sqlite")


def _demand_other_files(options: argparse.Namespace) -> None:
    files = [options.samples.resolve(), options.out.resolve(), _store(options).resolve()]
    if len(set(files)) < len(files):
        raise ValueError("samples, results and store have to be three files")
    for file in files:
        if file.is_dir():
            raise ValueError(f"{file} is a folder, and has to be a file")


def _write(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """All of it, or what was there before: whoever reads never sees half."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.part")
    beside.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    os.replace(beside, file)


def _tell(file: Path, text: str) -> None:
    print(f"{file}: {text}", file=sys.stderr)


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


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: what is judged is written, and no process stays."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
