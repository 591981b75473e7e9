"""Predicted against measured times, in the rows that `kata measure NAME --rows FILE` writes.

    python tools/benchmarks/tpu_rows.py FILE [FILE …]

prints a table in Markdown for each kind of TPU, and the median and worst ratio of each source of
times: the profiler's events of the kernels or of the whole program, and wall times. Rows without a
predicted time, and wall times no longer than an empty call, are left out. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pallascope.tools.text import format_time

Row = dict[str, Any]
TITLES = ("function", "arguments", "side", "times", "measured", "predicted", "ratio", "jax, libtpu")


def ratio(row: Row) -> float:
    """Predicted / measured."""
    return row["predicted_seconds"] / row["median_seconds"]


def report(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of all tables and summaries."""
    known = [row for row in rows if row["predicted_seconds"] and row["median_seconds"]]
    for kind in sorted({row["device_kind"] for row in known}):
        own = [row for row in known if row["device_kind"] == kind]
        yield from (f"{kind}\n", f"| {' | '.join(TITLES)} |", f"|{'---|' * len(TITLES)}")
        yield from map(_line, own)
        yield ""
        for events in sorted({row["events"] for row in own}):
            ratios = [ratio(row) for row in own if row["events"] == events]
            worst = max(ratios, key=lambda one: max(one, 1 / one))
            middle = statistics.median(ratios)
            yield f"{events}: {len(ratios)} rows, median {middle:.3f}, worst {worst:.3f}"
        yield ""
    yield f"{len(rows) - len(known)} of {len(rows)} rows left out"


def _line(row: Row) -> str:
    times = [format_time(row[name]) for name in ("median_seconds", "predicted_seconds")]
    what = (row["function"], row["arguments"], row["side"], row["events"])
    return f"| {' | '.join((*what, *times, f'{ratio(row):.3f}'))} | {row['jax']}, {row['libtpu']} |"


def main() -> None:
    """Read the files and print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="of JSON lines")
    files: list[Path] = parser.parse_args().files
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    print("\n".join(report([json.loads(line) for line in lines if line.strip()])))


if __name__ == "__main__":
    main()
