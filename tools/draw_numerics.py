"""Draw the pictures of 7_numerics: `python tools/draw_numerics.py`, or `--check` to compare."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from drawing import BOLD, SMALL, WIDTH, Picture, main

NUMBER = 3.14159265


@dataclass(frozen=True, slots=True)
class Format:
    """A dtype: its name; how many bits are sign, exponent and fraction; numpy's class for it."""

    name: str
    bits: tuple[int, int, int]
    dtype: Any

    def stored(self, number: float) -> tuple[str, float]:
        """The bits of the nearest number of this format, highest first, and its value."""
        value = np.array([number]).astype(np.float32).astype(self.dtype)
        width = sum(self.bits)
        raw = int(value.view(f"u{value.itemsize}")[0]) & ((1 << width) - 1)
        return f"{raw:0{width}b}", float(value[0])

    def numbers(self, most: float) -> list[float]:
        """All its numbers from 0 to `most`."""
        width = sum(self.bits)
        raw = np.arange(1 << min(width, 16), dtype=f"u{np.dtype(self.dtype).itemsize}")
        if width == 4:  # int4: numpy has a byte for each
            return [float(n) for n in range(8) if n <= most]
        with np.errstate(invalid="ignore"):  # some bits are NaN
            values = raw.view(self.dtype).astype(np.float64)
        return sorted({float(v) for v in values if 0 <= v <= most})


FLOATS = (
    Format("float32", (1, 8, 23), np.float32),
    Format("bfloat16", (1, 8, 7), ml_dtypes.bfloat16),
    Format("e5m2", (1, 5, 2), ml_dtypes.float8_e5m2),
    Format("e4m3", (1, 4, 3), ml_dtypes.float8_e4m3fn),
)
INT8, INT4 = Format("int8", (1, 0, 7), np.int8), Format("int4", (1, 0, 3), ml_dtypes.int4)
STEPS = {"int8": 127 / 4, "int4": 7 / 4}  # steps for 1.0, if 4.0 is the row's largest number


def bits() -> Picture:
    """One number in six formats: which bits there are, and what is left of it."""
    cell, high, left, row = 11.6, 20, 84, 44
    rows: list[tuple[Format, str, str]] = []
    for one in FLOATS:
        found, value = one.stored(NUMBER)
        rows.append((one, found, f"{value:.8g}"))
    for one in (INT8, INT4):
        steps = round(NUMBER * STEPS[one.name])
        found = f"{steps:0{sum(one.bits)}b}"
        rows.append((one, found, f"{steps} × 4/{int(STEPS[one.name] * 4)} = "
                     f"{steps / STEPS[one.name]:.4g}"))  # fmt: skip
    said = "; ".join(f"{one.name}: {found}, which is {value}" for one, found, value in rows)
    p = Picture(
        "bits", f"The bits of {NUMBER:.6g} in six formats", said + ".", 58 + row * len(rows)
    )
    p.text(0, 16, f"{NUMBER:.6g}, stored as", *BOLD, size=15)
    for x, look, words in (
        (190, "red", "sign"),
        (254, "gold", "exponent"),
        (348, "blue", "fraction"),
    ):
        p.box(x, 4, 16, 16, look)
        p.text(x + 22, 17, words, at="start")
    for n, (one, found, value) in enumerate(rows):
        y = 40 + n * row
        p.text(0, y + 15, one.name, "ink halo code", "start")
        looks = [look for look, count in zip(("red", "gold", "blue"), one.bits, strict=True)
                 for _ in range(count)]  # fmt: skip
        for place, (bit, look) in enumerate(zip(found, looks, strict=True)):
            p.box(left + place * cell, y, cell, high, look, bit, size=10)
        if len(found) > 20:
            p.text(left, y + high + 14, value, *SMALL)
        else:
            p.text(left + len(found) * cell + 12, y + 15, value, "soft halo", "start")
    p.text(
        left, 52 + row * len(rows), "int8, int4: with a scale, by which 4.0 is 127, or 7", *SMALL
    )
    return p


def grids() -> Picture:
    """The numbers of five formats between 0 and 4, as ticks."""
    most, left, wide, row = 4.0, 74, WIDTH - 90, 42
    rows: list[tuple[str, list[float]]] = []
    for one in (INT8, INT4):
        step = STEPS[one.name]
        rows.append((one.name, [n / step for n in range(int(step * most) + 1)]))
    rows += [(one.name, one.numbers(most)) for one in FLOATS[:0:-1]]
    counts = ", ".join(f"{name} has {len(numbers)}" for name, numbers in rows)
    p = Picture(
        "grids",
        "Which numbers there are between 0 and 4",
        f"A line of ticks for each format. Of the numbers from 0 to 4, {counts}. Those of int8 and "
        "int4 are equally far apart; those of floats are twice as far apart after each power of 2.",
        66 + row * len(rows),
    )
    p.text(0, 16, "numbers from 0 to 4 (int8 and int4: 4 is the row's largest)", *BOLD, size=14)
    for n, (name, numbers) in enumerate(rows):
        y = 34 + n * row
        p.text(0, y + 16, name, "ink halo code", "start")
        p.line((left, y + 22), (left + wide, y + 22))
        if len(numbers) > 300:
            p.box(left, y + 4, wide, 18, "grey", f"{len(numbers)} numbers: too many to draw")
            continue
        for value in numbers:
            p.line((left + value / most * wide, y + 4), (left + value / most * wide, y + 22))
    bottom = 34 + row * len(rows)
    for value in range(5):
        p.text(left + value / most * wide, bottom + 10, str(value), "soft halo")
    return p


def scales() -> Picture:
    """Which elements of x and w share a scale, and where in the sum over k it may be applied."""
    kinds = (
        ("one scale per row, per column (03, 04)", 1, 4, "after the last k: once", "green"),
        ("groups along K (05, 06)", 4, 4, "on each group's sum, before it is added", "gold"),
        ("blocks of K and N (08)", 4, 2, "on each block's sum, before it is added", "gold"),
    )
    high, cell, top = 128, 20, 40
    p = Picture(
        "scales",
        "Where a scale may be applied",
        "Three ways to share scales in w, K rows by N columns. " + " ".join(
            f"{name}: {where}." for name, _, _, where, _ in kinds
        ) + " Before the product, on the weights themselves, each of them would be rounded.",
        top + high * len(kinds) + 26,
    )  # fmt: skip
    p.text(0, 16, "which weights share a scale, and where it may go", *BOLD, size=15)
    looks = ("blue", "green", "gold", "red")
    for n, (name, deep, across, where, look) in enumerate(kinds):
        y = top + n * high
        p.text(0, y + 8, name, "ink halo bold", "start")
        for k, c in itertools.product(range(4), range(4)):
            shared = (k * deep // 4, c * across // 4)
            p.box(16 + c * cell, y + 18 + k * cell, cell, cell, looks[(shared[0] + shared[1]) % 4])
        p.text(10, y + 18 + 2 * cell + 5, "K", "soft halo code", "end", 12)
        p.text(16 + 2 * cell, y + 18 + 4 * cell + 14, "N", "soft halo code", size=12)
        p.text(120, y + 52, "x @ w", "ink halo code", "start")
        p.arrow((166, y + 47), (196, y + 47))
        p.box(200, y + 30, 84, 34, look if deep > 1 else "bare", "× s[k, n]" if deep > 1 else "")
        p.arrow((288, y + 47), (312, y + 47))
        p.box(316, y + 30, 56, 34, "bare", "+= acc")
        p.arrow((376, y + 47), (400, y + 47))
        p.box(404, y + 30, 72, 34, look if deep == 1 else "bare", "× s[n]" if deep == 1 else "o")
        p.text(200, y + 86, where, "soft halo", "start")
    words = "Before the product, on w, a scale means one more rounding for each weight."
    p.text(0, top + high * len(kinds) + 14, words, *SMALL)
    return p


PICTURES = (bits, grids, scales)

if __name__ == "__main__":
    sys.exit(main("7_numerics", PICTURES))
