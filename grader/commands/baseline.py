"""`kata baseline`: submissions whose verdicts are known, and whether they came out so."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from grader.batch.baseline import Comparison, compared, samples_of
from grader.commands.arguments import some_katas
from grader.exercise.repository import matching
from grader.tools.rendering import say, show


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write solutions and known mistakes there, as samples for `kata grade`",
    )
    what.add_argument(
        "--compare",
        type=Path,
        metavar="RESULTS",
        help="say how many of the results of `kata grade` are as they have to be",
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    """Returns 1 where a result is not as it has to be."""
    chosen = matching(root, options.name)
    if options.out:
        rows = [json.dumps(row) for kata in chosen for row in samples_of(kata)]
        options.out.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        say(console, f"wrote {len(rows)} samples to {options.out}")
        return 0
    ids = {kata.id for kata in chosen}
    found = compared([row for row in _read(options.compare) if row.get("task_id") in ids])
    show(_table(found), console)
    for row in found.otherwise:
        told = (row.get("finding") or {}).get("phrase", "")
        say(console, f"{row['id']} ({row['title']}): {row['stars']} stars; {told}")
    if found.skipped:
        say(console, f"{found.skipped} could not be judged here: {_why(options.compare)}")
    return int(bool(found.otherwise))


def _read(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    try:
        rows = [json.loads(line) for line in lines if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is no JSONL: {error}") from None
    return [row for row in rows if isinstance(row, dict)]


def _why(file: Path) -> str:
    return next(row["not_judged"] for row in _read(file) if row.get("not_judged"))


def _table(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading, justify in (("expected", "left"), ("samples", "right"), ("stars agree", "right")):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("told by the same check", justify="right", no_wrap=True)
    for each in found.by_check:
        table.add_row(each.check, str(each.count), str(each.stars), str(each.same))
    rows = found.by_check
    sums = (sum(each.count for each in rows), sum(e.stars for e in rows), sum(e.same for e in rows))
    table.add_row("all", *map(str, sums))
    return table
