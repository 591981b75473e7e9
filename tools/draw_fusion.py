"""Draw the pictures of 2_fusion: `python tools/draw_fusion.py`, or `--check` to compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from drawing import BF16, BOLD, F32, SMALL, WIDTH, Picture, amount, main

M, N = 8192, 4096  # rows of a layer's activations
BANDWIDTH = 819e9  # bytes a second between a v5e and its HBM


@dataclass(frozen=True, slots=True)
class Loop:
    """What runs by itself, with the bytes that it reads from HBM and writes there."""

    name: str
    reads: int
    writes: int

    @property
    def bytes(self) -> int:
        return self.reads + self.writes


def told(loops: Sequence[Loop]) -> str:
    """Bytes and time of loops that run one after another, limited by HBM."""
    moved = sum(loop.bytes for loop in loops)
    return f"{amount(moved)}, {moved / BANDWIDTH * 1e6:.0f} µs"


def trips() -> Picture:
    """What RMS norm moves: operation by operation, in two loops, and in one."""
    x, wide = M * N * BF16, M * N * F32
    ways = (
        (
            "each operation alone",
            (
                Loop("to f32", x, wide),
                Loop("square", wide, wide),
                Loop("mean", wide, 0),
                Loop("× 1/rms", wide, wide),
                Loop("× w", wide, wide),
                Loop("to bf16", wide, x),
            ),
        ),
        ("XLA: two loops", (Loop("mean", x, 0), Loop("the result", x, x))),
        ("01 rms_norm: one", (Loop("mean and result", x, x),)),
    )
    p = Picture(
        "trips",
        "What RMS norm moves between HBM and the chip",
        f"Bars as long as the bytes that are moved for x of {M} by {N} in bfloat16. "
        + " ".join(
            f"{name}: {', '.join(loop.name for loop in loops)}; {told(loops)}."
            for name, loops in ways
        ),
        262,
    )
    scale = (WIDTH - 4) / max(sum(loop.bytes for loop in loops) for _, loops in ways)
    p.text(0, 16, f"x[{M}, {N}] in bfloat16, {amount(x)}", *BOLD, size=15)
    for row, (name, loops) in enumerate(ways):
        y, left = 42 + 66 * row, 2.0
        p.text(0, y, name, "ink halo", "start")
        p.text(WIDTH, y, told(loops), "soft halo", "end")
        for loop in loops:
            for size, look in ((loop.reads, "blue"), (loop.writes, "gold")):
                if size:
                    p.box(left, y + 8, size * scale, 20, look)
                left += size * scale
            middle = left - loop.bytes * scale / 2
            if len(loops) > 2:
                p.text(middle, y + 43, loop.name, "soft halo", size=12)
        if len(loops) <= 2:
            p.text(2, y + 43, ", then ".join(loop.name for loop in loops), *SMALL)
    for left, look, words in ((2, "blue", "read from HBM"), (140, "gold", "written to HBM")):
        p.box(left, 238, 16, 16, look)
        p.text(left + 24, 251, words, at="start")
    return p


def loops() -> Picture:
    """Which loop of a residual layer norm reads what, and writes what."""
    size = M * N * BF16
    ways = (
        (
            "XLA, in float32",
            (("mean", "x r", ""), ("variance", "x r", ""), ("results", "x r", "h y")),
        ),
        ("two kernels", (("add", "x r", "h"), ("normalize", "h", "y"))),
        ("02 layer_norm_residual", (("both", "x r", "h y"),)),
    )
    p = Picture(
        "loops",
        "The arrays that cross HBM for a residual layer norm",
        f"Each array has {amount(size)}. "
        + " ".join(
            f"{name}: "
            + "; ".join(
                f"{loop} reads {' and '.join(reads.split())}"
                + (f", writes {' and '.join(writes.split())}" if writes else "")
                for loop, reads, writes in table
            )
            + "."
            for name, table in ways
        ),
        316,
    )
    arrays, left, column, high = ("x", "r", "h", "y"), 190, 46, 26
    p.text(0, 16, f"x[{M}, {N}] in bfloat16", *BOLD, size=15)
    for place, array in enumerate(arrays):
        p.text(left + (place + 0.5) * column, 40, array, "ink halo code")
    y = 34.0
    for name, table in ways:
        moved = [Loop(loop, len(r.split()) * size, len(w.split()) * size) for loop, r, w in table]
        p.text(0, y + 16, name, *BOLD)
        p.text(WIDTH, y + 16, told(moved), "soft halo", "end")
        y += 0 if len(table) == 1 else 24
        for loop, reads, writes in table:
            if len(table) > 1:
                p.text(20, y + 17, loop, at="start")
            for place, array in enumerate(arrays):
                if array in reads.split() + writes.split():
                    look = "gold" if array in writes.split() else "blue"
                    p.box(left + place * column + 4, y + 3, column - 8, high - 8, look)
            y += high
        y += 12
    for x, look, words in ((2, "blue", "read from HBM"), (140, "gold", "written to HBM")):
        p.box(x, 292, 16, 16, look)
        p.text(x + 24, 305, words, at="start")
    return p


def gradient() -> Picture:
    """A result for each step beside one that all steps add to; and on two cores."""
    steps = 6
    p = Picture(
        "gradient",
        "dx has a block for each step, dw one for all of them",
        f"{steps} steps in time. Each reads a block of x and dy and writes a block of dx. dw stays "
        "in VMEM: it is cleared in the first step, every step adds to it, and it goes to HBM after "
        "the last. With the axis split between two cores, each has a dw of its own, with half of "
        "the sum, and both write it to the same place: a race.",
        306,
    )
    left, unit = 76, (WIDTH - 80) / steps
    rows = (("x, dy", "blue"), ("dx", "gold"))
    p.text(0, 16, 'one core, or an "arbitrary" axis', *BOLD, size=15)
    for line, (name, look) in enumerate(rows):
        y = 28 + 32 * line
        p.text(0, y + 18, name, at="start")
        for step in range(steps):
            p.box(left + step * unit, y, unit, 26, look, str(step))
    p.text(0, 28 + 64 + 18, "dw", at="start")
    p.box(left, 92, unit * steps, 26, "green", "clear, add, add, add, add, add")
    p.arrow((left + unit * steps - 8, 119), (left + unit * steps - 8, 137))
    p.text(left + unit * steps - 16, 134, "the whole sum, once", "soft halo", "end", 12)
    p.text(0, 170, 'two cores, and an axis that is called "parallel"', *BOLD, size=15)
    half = steps // 2
    for core in range(2):
        y = 182 + 50 * core
        p.text(0, y + 18, f"core {core}", at="start")
        for place in range(half):
            p.box(left + place * unit, y, unit, 26, "blue", str(core * half + place))
        p.box(left + half * unit + 6, y, unit * 1.3, 26, "red", "half of dw")
        end = left + (half + 1.3) * unit + 8
        p.arrow((end, y + 13), (end + 30, 220 + 8 * (2 * core - 1)))
    p.text(left + (half + 1.3) * unit + 44, 225, "dw: a race", "ink halo", "start")
    p.text(0, 296, "the steps are those of 03 rms_norm_backward", *SMALL)
    return p


def logits() -> Picture:
    """The arrays of a linear cross entropy, to scale, and the block of logits in VMEM."""
    tokens, width, words, bt, bv = 4096, 2304, 128256, 1024, 512
    x, w, square = (
        amount_about(size)
        for size in (tokens * width * BF16, words * width * BF16, tokens * words * F32)
    )
    p = Picture(
        "logits",
        "The logits never exist as a whole",
        f"A wide rectangle: the logits of {tokens} tokens and {words} words, {square} in float32. "
        f"w below it, {w}, and x at its left, {x}, both in bfloat16 and to scale. One block of "
        f"logits, {amount(bt * bv * F32)}, is in VMEM in a step. The result is two numbers for "
        "each token.",
        246,
    )
    scale = 360 / words
    left, top = 84.0, 58.0
    high, block = tokens * scale * 6, (bv * scale, bt * scale * 6)
    thin = width * scale * 6
    p.text(0, 16, f"{tokens} tokens, {words:,} words, width {width}", *BOLD, size=15)
    p.text(0, 36, "heights six times as large as widths", *SMALL)
    p.box(left, top, words * scale, high, "bare", f"logits in float32: {square}, not stored")
    p.box(left + 10 * block[0], top + block[1], *block, "green")
    p.box(left - 8 - width * scale, top, width * scale, high, "blue")
    p.text(left - 14 - width * scale, top + high / 2 + 5, f"x: {x}", "ink halo", "end")
    p.box(left, top + high + 8, words * scale, thin, "blue", f"w: {w}")
    p.box(left + words * scale + 8, top, 6, high, "gold")
    p.text(left + words * scale + 22, top - 8, "lse, loss", "ink halo", "end")
    y = top + high + thin + 34
    p.box(2, y - 13, 16, 16, "green")
    told = f"the small bar: one block, {bt} tokens × {bv} words, {amount(bt * bv * F32)} in VMEM"
    p.text(26, y, told, at="start")
    return p


def amount_about(size: int) -> str:
    """Bytes in whole MiB: 591 MB is "564 MiB"."""
    return f"{size / 2**20:.0f} MiB"


PICTURES = (trips, loops, gradient, logits)

if __name__ == "__main__":
    sys.exit(main("2_fusion", PICTURES))
