"""Draw predicted against measured times, and write the table of docs/predictions.md.

    python tools/draw_accuracy.py             draws docs/accuracy.svg and writes the table
    python tools/draw_accuracy.py --check     only compares; exits with 1 if something differs

Both are made from docs/accuracy.json, which `tools/benchmarks/tpu_accuracy.py --rows` writes in a
minute or two.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from drawing import BOLD, SMALL, Picture, kept

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/accuracy.json"
PICTURE = ROOT / "docs/accuracy.svg"
PAGE = ROOT / "docs/predictions.md"
BEGIN = "<!-- BEGIN ACCURACY: written by python tools/draw_accuracy.py -->"
END = "<!-- END ACCURACY -->"


#: The fields of `Row` in `tools/benchmarks/tpu_accuracy.py`; times in seconds.
Row = dict[str, Any]


def ratio(row: Row) -> float:
    """Predicted / measured."""
    return row["predicted"] / row["measured"]


#: A line of the table: its words, and its rows.
LINES: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    (
        "JAX's matmul tutorial, sizes of 4096 and 8192",
        lambda row: row["source"] == "JAX's matmul tutorial" and row["measured"] > 2e-4,
    ),
    (
        "the same at 1024 (16 to 198 µs, after subtracting 105 µs of dispatch)",
        lambda row: row["source"] == "JAX's matmul tutorial" and row["measured"] < 2e-4,
    ),
    ("grouped matmul of Tokamax, 0.8 to 13 ms", lambda row: row["source"] == "Tokamax"),
    (
        "block sizes of pallas-forge at 2048 (0.13 to 2.5 ms, after subtracting 186 µs of "
        "dispatch, estimated from the other half)",
        lambda row: row["source"] == "pallas-forge",
    ),
    (
        "on a v6e: copies through VMEM in 16 to 2048 steps, and DMAs by hand of 2048 tokens (9 to "
        "650 µs)",
        lambda row: row["chip"] == "v6e",
    ),
)
#: The colour of each source's points.
LOOKS = {
    "JAX's matmul tutorial": "blue",
    "Tokamax": "gold",
    "pallas-forge": "green",
    "tengyifei/playground": "red",
}
LEFT, WIDTH, HEIGHT = 44, 420, 170
TIMES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # seconds, on the axis
RATIOS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)


def data() -> list[Row]:
    """The rows of the benchmark."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def table(rows: Sequence[Row]) -> str:
    """The page's table, with its markers: rows that nothing was fitted to, if there are any."""
    heading = (
        "| measured on a TPU v5e if no other is named, bfloat16 | rows | predicted / measured: "
    )
    lines = [heading + "median | worst |", "|---|---|---|---|"]
    for words, belongs in LINES:
        every = [row for row in rows if belongs(row)]
        own = [row for row in every if row["half"] == "test"] or every
        ratios = [ratio(row) for row in own]
        worst = max(ratios, key=lambda one: max(one, 1 / one))
        count = f"{len(own)} of {len(every)}" if len(own) < len(every) else str(len(own))
        lines.append(f"| {words} | {count} | {statistics.median(ratios):.3f} | {worst:.3f} |")
    return "\n".join([BEGIN, "", *lines, "", END])


def picture(rows: Sequence[Row]) -> Picture:
    """Predicted over measured time, by the measured time, for each chip."""
    chips = list(dict.fromkeys(row["chip"] for row in rows))
    p = Picture(
        "accuracy",
        "Predicted divided by measured times",
        f"{len(rows)} published times of kernels on {' and '.join(chips)}. Large points: nothing "
        "was fitted to them. Small points: a number was fitted to such rows. The band is 10 % "
        "around 1.",
        86 + len(chips) * (HEIGHT + 56),
    )
    p.text(0, 16, "Predicted ÷ measured time, by measured time", *BOLD, size=15)
    for number, (source, look) in enumerate(LOOKS.items()):
        x, y = (8 + 220 * (number % 2), 36 + 18 * (number // 2))
        p.box(x, y - 9, 10, 10, look)
        p.text(x + 16, y, source, *SMALL)
    for x, radius, words in (
        (8, 4.5, "nothing was fitted to it"),
        (228, 2.5, "fitted to such rows"),
    ):
        p.parts.append(f'<circle cx="{x + 5}" cy="68" r="{radius}" class="edge bare"/>')
        p.text(x + 16, 72, words, *SMALL)
    for number, chip in enumerate(chips):
        _panel(p, 104 + number * (HEIGHT + 56), chip, [row for row in rows if row["chip"] == chip])
    return p


def _panel(p: Picture, top: float, chip: str, rows: Sequence[Row]) -> None:
    def x(seconds: float) -> float:
        low, high = math.log(TIMES[0] / 1.5), math.log(TIMES[-1] * 1.2)
        return LEFT + WIDTH * (math.log(seconds) - low) / (high - low)

    def y(value: float) -> float:
        return top + HEIGHT * (RATIOS[-1] - value) / (RATIOS[-1] - RATIOS[0])

    p.text(LEFT, top - 8, f"TPU {chip}", "ink halo bold", "start")
    p.box(LEFT, y(1.1), WIDTH, y(0.9) - y(1.1), "grey")
    p.box(LEFT, top, WIDTH, HEIGHT)
    p.line((LEFT, y(1)), (LEFT + WIDTH, y(1)), "dash")
    for value in RATIOS:
        p.text(LEFT - 6, y(value) + 4, f"{value:.1f}", "soft halo", "end", 12)
    for seconds, words in zip(TIMES, ("10 µs", "100 µs", "1 ms", "10 ms", "100 ms"), strict=True):
        p.line((x(seconds), top + HEIGHT), (x(seconds), top + HEIGHT + 5))
        p.text(x(seconds), top + HEIGHT + 18, words, "soft halo", size=12)
    for row in sorted(rows, key=lambda row: row["half"] == "test"):
        radius = 4.5 if row["half"] == "test" else 2.5
        told = f"{row['source']}, {row['words']}: {ratio(row):.3f}"
        at = x(row["measured"])
        p.parts.append(
            f'<circle cx="{at:.1f}" cy="{y(ratio(row)):.1f}" r="{radius}" '
            f'class="edge {LOOKS[row["source"]]}"><title>{told}</title></circle>'
        )


def main() -> int:
    """Write or compare both; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if it differs")
    options = parser.parse_args()
    page, rows = PAGE.read_text(encoding="utf-8"), data()
    old = page[page.index(BEGIN) : page.index(END) + len(END)]
    texts = (PICTURE, picture(rows).svg()), (PAGE, page.replace(old, table(rows)))
    return int(not kept(texts, options.check) and options.check)


if __name__ == "__main__":
    sys.exit(main())
