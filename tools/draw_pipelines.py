"""Draw the pictures of 5_pipelines: `python tools/draw_pipelines.py`, or `--check` to compare.

Times are those of a simple machine: HBM moves one copy's bytes at a time, each copy arrives a
latency after its bytes have moved, and the core computes at its peak. The numbers are a v5e's.
`kata cost` simulates the compiled instructions instead; its times differ by a few percent.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from drawing import BF16, BOLD, F32, SMALL, WIDTH, Picture, amount, main, production

from pallascope.tpu.chips import CHIPS

CHIP = CHIPS["v5e"]
MICRO = 1e6


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that takes time: a copy, with the time at which its bytes begin; or a product."""

    name: str
    start: float
    end: float
    bytes_from: float = 0.0  # of a copy


@dataclass(slots=True)
class Machine:
    """HBM and a core, with the copies and computations so far. Times in seconds."""

    now: float = 0.0
    free: float = 0.0  # when HBM has moved all bytes so far
    copies: list[Bar] = field(default_factory=list)
    work: list[Bar] = field(default_factory=list)

    def start(self, name: str, size: int) -> Bar:
        """Start a copy of `size` bytes now."""
        moved = max(self.now, self.free) + size / CHIP.bandwidth
        self.free, arrives = moved, moved + CHIP.dma_latency
        self.copies.append(Bar(name, self.now, arrives, arrives - size / CHIP.bandwidth))
        return self.copies[-1]

    def wait(self, copy: Bar) -> None:
        self.now = max(self.now, copy.end)

    def compute(self, name: str, seconds: float) -> None:
        self.work.append(Bar(name, self.now, self.now + seconds))
        self.now += seconds


# ---- the pictures ----


def memories() -> Picture:
    """Arrays in HBM, blocks in scratch in VMEM, and the copies between them."""
    sizes = production("5_pipelines/kata_01_memory_spaces")
    bm, m, n = sizes["bm"], sizes["M"], sizes["N"]
    half, block = m * n // 2 * BF16, bm * n // 2 * BF16
    p = Picture(
        "memories",
        "Whole arrays in HBM, one block of each in VMEM",
        f"Above, in HBM: the value half and the gate half of x, and o, {amount(half)} each. Below, "
        f"in VMEM: two blocks of {bm} rows, {amount(block)} each. In each of {m // bm} steps, the "
        "kernel copies a block of values and a block of gates to VMEM, computes there in place, "
        "and copies the result to o.",
        352,
    )
    p.text(0, 16, f"x[{m}, {n}] in bfloat16, bm = {bm}", *BOLD, size=15)
    p.box(1, 30, WIDTH - 2, 140, "bare dash")
    p.text(10, 50, "HBM", *BOLD)
    p.box(1, 232, WIDTH - 2, 76, "bare dash")
    p.text(10, 252, "VMEM", *BOLD)
    wide, tall, top, row, low = 104, 84, 76, 22, 244
    columns = {"o": 64, "x: values": 224, "x: gates": 328}
    for name, x in columns.items():
        middle = x + wide / 2
        p.text(middle, top - 24, name, "ink halo bold")
        p.text(middle, top - 8, amount(half), "soft halo", size=12)
        p.box(x, top, wide, tall)
        p.box(x, top + row, wide, row, "gold" if name == "o" else "blue", "block i")
    for number, name in ((1, "x: values"), (2, "x: gates")):
        middle = columns[name] + wide / 2
        p.arrow((middle, top + 2 * row + 1), (middle, low - 2))
        p.text(middle + 8, 206, f"{number}. copy in", *SMALL)
        p.box(columns[name] + 4, low, wide - 8, 30, "blue", amount(block))
    middle = columns["o"] + wide / 2
    p.line((columns["x: values"] + 3, low + 15), (middle, low + 15))
    p.arrow((middle, low + 15), (middle, top + 2 * row + 3))
    p.text(middle + 8, 206, "4. copy out", *SMALL)
    words = "3. compute, in place of the values"
    p.text(columns["x: gates"], low + 48, words, "soft halo", size=12)
    words = f"{m // bm} steps, and each waits for its three copies, one after another"
    p.text(WIDTH / 2, 336, words, "ink halo")
    return p


def halves() -> Picture:
    """A product by the halves of w: copies one after another, and copies that overlap."""
    sizes = production("5_pipelines/kata_02_async_copy")
    m, k, n = sizes["M"], sizes["K"], sizes["N"]
    x, half, o = m * k * BF16, k // 2 * n * BF16, m * n * F32
    product = 2 * m * (k // 2) * n / CHIP.peak
    waits, overlaps = Machine(), Machine()
    for machine in (waits, overlaps):
        machine.wait(machine.start("x", x))
    for number in range(2):
        waits.wait(waits.start(f"half {number}", half))
        waits.compute(f"product {number}", product)
    copies = [overlaps.start(f"half {number}", half) for number in range(2)]
    for number, copy in enumerate(copies):
        overlaps.wait(copy)
        overlaps.compute(f"product {number}", product)
    for machine in (waits, overlaps):
        machine.wait(machine.start("o", o))
    ways = (("wait for each copy", waits), ("03 async_copy: start both, then wait", overlaps))
    p = Picture(
        "halves",
        "Two copies and two products, one after another and at the same time",
        f"Time from left to right. Copying half of w, {amount(half)}, takes "
        f"{half / CHIP.bandwidth * MICRO:.1f} µs, and a product {product * MICRO:.1f} µs. One "
        f"after another, with x before and o after: {waits.now * MICRO:.0f} µs. If the second half "
        f"is copied during the first product: {overlaps.now * MICRO:.0f} µs.",
        288,
    )
    left, scale = 58.0, (WIDTH - 60) / waits.now
    p.text(0, 16, f"x[{m}, {k}] @ w[{k}, {n}] in bfloat16", *BOLD, size=15)
    for row, (name, machine) in enumerate(ways):
        y = 42 + 106 * row
        p.text(0, y, name, *BOLD)
        p.text(WIDTH, y, f"{machine.now * MICRO:.0f} µs", "ink halo", "end")
        p.text(0, y + 26, "copies", at="start")
        p.text(0, y + 60, "core", at="start")
        for before, bar in itertools.pairwise([Bar("", 0, 0), *machine.copies]):
            seen = replace(bar, start=max(bar.start, before.end))
            _bar(p, left, scale, y + 8, 26, seen, "gold" if bar.name == "o" else "blue")
        for bar in machine.work:
            _bar(p, left, scale, y + 42, 26, bar, "green")
        p.line((left + machine.now * scale, y + 4), (left + machine.now * scale, y + 72))
    _axis(p, left, scale, 240, range(0, 26, 5))
    latency = f"{CHIP.dma_latency * MICRO:.2f} µs"
    p.text(0, 282, f"gray: {latency} of latency before a copy's bytes", *SMALL)
    return p


def slots() -> Picture:
    """Small blocks: wait for each copy, two slots, and a ring of slots."""
    sizes = production("5_pipelines/kata_04_ring_of_slots")
    bm, m, n, ring = sizes["bm"], sizes["M"], sizes["N"], sizes["slots"]
    block, steps = bm * n * BF16, m // bm
    seconds = 2 * bm * n / CHIP.vector_peak  # a subtraction and a product for each number
    limit = 2 * block / CHIP.bandwidth
    ways = (
        ("wait for each copy", waiting(steps, block, seconds), 1),
        ("two slots in, two slots out", double_buffer(steps, block, seconds), 2),
        (f"a ring of {ring} slots", ring_of_slots(steps, block, seconds, ring, ring // 2), ring),
    )
    said = [f"{name}: {each.now / steps * MICRO:.2f} µs a block" for name, each, _ in ways]
    span = 3.2 / MICRO
    p = Picture(
        "slots",
        "Small blocks need many copies in flight",
        f"The first {span * MICRO:.1f} µs of three kernels. Each line is a slot: blocks of "
        f"{amount(block)} are copied in, computed and copied out. Most of a copy's time is "
        f"latency. {'; '.join(said)}. HBM's bandwidth alone would allow {limit * MICRO:.2f} µs.",
        442,
    )
    left, scale = 58.0, (WIDTH - 62) / span
    p.text(0, 16, f"blocks of {amount(block)}, in and out", *BOLD, size=15)
    legend = {"grey": "latency", "blue": "bytes in", "green": "compute", "gold": "bytes out"}
    for x, (look, words) in zip((2, 92, 192, 294), legend.items(), strict=True):
        p.box(x, 27, 14, 14, look)
        p.text(x + 20, 39, words, at="start")
    y = 66.0
    for name, machine, lanes in ways:
        high = 8 if lanes > 2 else 14
        both = lanes == 2
        p.text(0, y, name, *BOLD)
        p.text(WIDTH, y, f"{machine.now / steps * MICRO:.2f} µs a block", "ink halo", "end")
        top = y + 10
        count = 2 * lanes if both else lanes
        p.text(0, top + count * high / 2 + 5, "slots", at="start")
        for bar in machine.copies:
            out = bar.name.startswith("out")
            lane = int(bar.name[3:]) % lanes + lanes * (both and out)
            _bar(p, left, scale, top + lane * high, high - 1, bar, "gold" if out else "blue", span)
        for bar in machine.work:
            lane = int(bar.name) % lanes
            _bar(p, left, scale, top + lane * high, high - 1, bar, "green", span)
        below = top + count * high + 6
        p.text(0, below + 11, "HBM", at="start")
        p.box(left, below, WIDTH - 4 - left, 13)
        for bar in machine.copies:
            if bar.bytes_from < span:
                w = (min(bar.end, span) - bar.bytes_from) * scale
                p.box(left + bar.bytes_from * scale, below, w, 13,
                      "gold" if bar.name.startswith("out") else "blue")  # fmt: skip
        y = below + 46
    _axis(p, left, scale, y - 28, range(4))
    return p


def waiting(steps: int, block: int, seconds: float) -> Machine:
    """Copy a block in, compute, copy it out, and wait for each."""
    machine = Machine()
    for i in range(steps):
        machine.wait(machine.start(f"in {i}", block))
        machine.compute(f"{i}", seconds)
        machine.wait(machine.start(f"out{i}", block))
    return machine


def double_buffer(steps: int, block: int, seconds: float) -> Machine:
    """The loop of kata 04: one block ahead, and two slots for results."""
    machine, sent = Machine(), list[Bar]()
    coming = [machine.start("in 0", block)]
    for i in range(steps):
        if i + 1 < steps:
            coming.append(machine.start(f"in {i + 1}", block))
        machine.wait(coming[i])
        if i >= 2:
            machine.wait(sent[i - 2])
        machine.compute(f"{i}", seconds)
        sent.append(machine.start(f"out{i}", block))
    machine.wait(sent[-1])
    return machine


def ring_of_slots(steps: int, block: int, seconds: float, ring: int, distance: int) -> Machine:
    """The loop of kata 05: `distance` blocks ahead, results leave from the slot of their block."""
    machine, sent = Machine(), list[Bar]()
    coming = [machine.start(f"in {i}", block) for i in range(distance)]
    for i in range(steps):
        ahead = i + distance
        if ring <= ahead < steps:
            machine.wait(sent[ahead - ring])
        if ahead < steps:
            coming.append(machine.start(f"in {ahead}", block))
        machine.wait(coming[i])
        machine.compute(f"{i}", seconds)
        sent.append(machine.start(f"out{i}", block))
    machine.wait(sent[-1])
    return machine


def nested() -> Picture:
    """A triangular product: an inner pipeline of another length in each outer step."""
    sizes = production("5_pipelines/kata_08_nested_pipeline")
    bm, bn, bk, m, n = (sizes[name] for name in ("bm", "bn", "bk", "M", "N"))
    rows, across = m // bm, n // bn
    pieces = [((i + 1) * bm + bk - 1) // bk for i in range(rows)]
    bytes_of_piece = (bm * bk + bk * bn) * BF16
    moved = (across * sum(pieces) * bytes_of_piece + m * n * BF16) / 2**20
    copy, product = bytes_of_piece / CHIP.bandwidth, 2 * bm * bk * bn / CHIP.peak
    done, whole = across * sum(pieces), across * rows * (m // bk)
    p = Picture(
        "nested",
        "Each outer step runs an inner pipeline of another length",
        f"Left: x in {rows} by {m // bk} blocks; the {sum(pieces)} on and below the diagonal are "
        f"read. Right: the inner pipeline of each outer row, in time, with one product for each "
        f"block. Before its first product, each waits for its first pieces, "
        f"{(copy + CHIP.dma_latency) * MICRO:.1f} µs; a product takes {product * MICRO:.1f} µs. "
        f"{done} products instead of {whole}.",
        316,
    )
    cell, top, left = 12, 62, 30
    p.text(0, 16, f"x[{m}, {m}] @ y[{m}, {n}], blocks of x {bm} × {bk}", *BOLD, size=15)
    p.text(left, 46, "x", "ink halo code bold", "start")
    x = left + (m // bk) * cell + 40
    scale = (WIDTH - x - 4) / (copy + CHIP.dma_latency + max(pieces) * product)
    p.text(x, 46, "an outer step of each row", "ink halo", "start")
    for i, count in enumerate(pieces):
        y = top + i * cell
        for k in range(m // bk):
            p.box(left + k * cell, y, cell, cell, "blue" if k < count else "bare")
        if i % 3 == 0:
            p.text(left - 6, y + 10, f"{i}", "soft halo", "end", 12)
        filled = (copy + CHIP.dma_latency) * scale
        p.box(x, y + 1, filled, cell - 2, "grey")
        for k in range(count):
            p.box(x + filled + k * product * scale, y + 1, product * scale, cell - 2, "green")
    bottom = top + rows * cell
    first = f"first pieces: {(copy + CHIP.dma_latency) * MICRO:.1f} µs"
    each = f"a product: {product * MICRO:.1f} µs, with copies"
    for at, look, words in ((left, "grey", first), (x, "green", each)):
        p.box(at, bottom + 14, 14, 14, look)
        p.text(at + 20, bottom + 26, words, *SMALL)
    words = f"{done} products, not {whole}; {moved:.0f} MiB of HBM traffic"
    p.text(left, bottom + 48, f"over {across} columns of blocks: {words}", *SMALL)
    return p


# ---- parts ----


def _bar(
    p: Picture, left: float, scale: float, y: float, high: float, bar: Bar, look: str,
    until: float = 1.0,
) -> None:  # fmt: skip
    """A bar in time: of a copy the latency in gray, then the bytes."""
    spans = [(bar.start, bar.end, look)]
    if bar.bytes_from:
        spans = [(bar.start, bar.bytes_from, "grey"), (bar.bytes_from, bar.end, look)]
    spans = [span for span in spans if span[1] > span[0]]
    for start, end, colour in spans:
        if start < until:
            wide = max((min(end, until) - start) * scale, 3)
            named = bar.name if colour == look and wide > 8 * len(bar.name) else ""
            p.box(left + start * scale, y, wide, high, colour, named, 12)


def _axis(p: Picture, left: float, scale: float, y: float, marks: Sequence[int]) -> None:
    """Microseconds below the bars."""
    for mark in marks:
        at = left + mark / MICRO * scale
        p.line((at, y), (at, y + 5))
        p.text(at, y + 18, f"{mark} µs" if mark == marks[-1] else f"{mark}", "soft halo", size=12)


PICTURES = (memories, halves, slots, nested)

if __name__ == "__main__":
    sys.exit(main("5_pipelines", PICTURES))
