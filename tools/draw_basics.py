"""Draw the pictures of 1_basics: `python tools/draw_basics.py`, or `--check` to compare."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass

from drawing import (
    BF16,
    BOLD,
    F32,
    LANES,
    SUBLANES,
    WIDTH,
    Block,
    Picture,
    amount,
    comma,
    main,
    moves,
)

HBM, VMEM = 16_000_000_000, 16 << 20  # bytes: of a v5e, and a kernel's default limit
TILE = SUBLANES * LANES * F32


def legal(block: Block, array: Block) -> bool:
    """The block-shape rule for two dimensions."""
    pairs = zip(block, array, (SUBLANES, LANES), strict=True)
    return all(size == whole or size % step == 0 for size, whole, step in pairs)


@dataclass(frozen=True)
class Step:
    """When a grid step's copy in, body and copy out begin and end."""

    fetch: tuple[int, int]
    body: tuple[int, int]
    send: tuple[int, int]


def pipeline(steps: int, fetch: int, body: int, send: int) -> list[Step]:
    """The steps of a pipeline with two buffers, for the time that each part takes."""
    done: list[Step] = []
    ready = sent = end = 0  # ends of the last copy in, the last copy out, the last step
    for _ in range(steps):
        # A buffer is free again once the step before last is over.
        begin = max(ready, done[-2].body[1] if len(done) > 1 else 0)
        ready = begin + fetch
        start = max(ready, end)
        stop = start + body
        done.append(Step((begin, ready), (start, stop), (max(stop, sent), max(stop, sent) + send)))
        end, sent = max(stop, sent), done[-1].send[1]
    return done


# ---- the pictures ----


def memory() -> Picture:
    """constant_add: what pallas_call moves and what the kernel moves."""
    n, register = 8192, SUBLANES * LANES
    cells, size = n // register, amount(n * F32)
    p = Picture(
        "memory",
        "Where the numbers are in constant_add",
        f"Three boxes from left to right: HBM, VMEM, registers. pallas_call copies x, {size}, from "
        "HBM to VMEM, where the kernel sees it as x_ref, and copies o_ref back. The kernel loads "
        f"x_ref into {cells} registers, adds 10, and stores the sums in o_ref.",
        290,
    )
    heads = (("HBM", amount(HBM)), ("VMEM", f"{amount(VMEM)} per kernel"), ("registers", ""))
    lefts, widths = (2, 178, 370), (132, 148, 108)
    for (head, below), x, w in zip(heads, lefts, widths, strict=True):
        p.box(x, 44, w, 152)
        p.text(x + w / 2, 16, head, "ink halo bold", size=15)
        p.text(x + w / 2, 34, below or f"{amount(register * F32)} each", "soft halo")
    for y, names, colour in ((76, ("x", "x_ref"), "blue"), (152, ("result", "o_ref"), "gold")):
        for name, x, w in zip(names, lefts, widths, strict=False):
            p.text(x + 10, y - 8, name, "ink halo code", "start")
            for cell in range(cells):
                wide = (w - 20) / cells
                p.box(x + 10 + cell * wide, y, wide, 26, colour)
        p.box(lefts[2] + 17, y, 74, 26, colour, f"{SUBLANES} × {LANES}")
    for y, (near, far) in ((89, ("copy", "load")), (165, ("copy", "store"))):
        for word, left, right in ((near, 134, 178), (far, 326, 370)):
            ends = ((left + 3, y), (right - 3, y))
            p.arrow(*(ends if y < 100 else ends[::-1]))
            p.text((left + right) / 2, y - 8, word)
    p.arrow((424, 105), (424, 149))
    p.text(430, 131, "+ 10", "ink halo code", "start")
    for x, words in ((156, ("pallas_call", "copies")), (348, ("your kernel", "loads and stores"))):
        p.line((x, 176), (x, 212), "dash")
        p.text(x, 228, words[0], "ink halo bold")
        p.text(x, 245, words[1])
    text = f"x is float32[{n}], {size}: it fills {cells} registers of {SUBLANES} × {LANES} numbers."
    p.text(WIDTH / 2, 278, text, "soft halo")
    return p


def index_map() -> Picture:
    """An index map that rotates the blocks of a vector; not the one that kata 03 asks for."""
    n, bn = 4096, 1024
    steps = n // bn
    letters = "ABCDEFGH"[:steps]
    reads = [(i + 1) % steps for i in range(steps)]
    p = Picture(
        "index_map",
        "An index map moves blocks",
        f"A vector of {n} numbers in {steps} blocks of {bn}. In step i the index map of x picks "
        f"block (i + 1) % {steps}; the body copies it from x_ref to o_ref; the index map of the "
        "result puts it at block i. " + f"The result consists of x's blocks {comma(reads)}.",
        362,
    )
    left, column, cell = 88, 98, 22
    maps = f"index map of x: (i + 1) % {steps}; index map of the result: i"
    p.text(0, 16, maps, "ink halo code", "start")
    rows = {
        60: "reads block",
        78: "at element",
        111: "x, HBM",
        179: "x_ref",
        241: "o_ref",
        313: "result,",
    }
    for y, words in rows.items():
        p.text(0, y, words, "ink halo" if y > 100 else "soft halo", "start")
    p.text(0, 329, "HBM", "ink halo", "start")
    for step, read in enumerate(reads):
        x, middle = left + step * column, left + step * column + 2 * cell
        p.text(middle, 40, f"step {step}", "ink halo bold")
        p.text(middle, 60, str(read), "soft halo")
        p.text(middle, 78, str(read * bn), "soft halo")
        for block, letter in enumerate(letters):
            p.box(x + block * cell, 92, cell, 28, "blue" if block == read else "bare", letter)
            held = letters[reads[block]] if block <= step else "?"
            p.box(x + block * cell, 304, cell, 28, "gold" if block == step else "bare", held)
        p.arrow((x + (read + 0.5) * cell, 122), (middle, 157))
        p.box(x + 14, 160, 60, 28, "blue", letters[read])
        p.arrow((middle, 190), (middle, 219))
        p.box(x + 14, 222, 60, 28, "gold", letters[read])
        p.arrow((middle, 252), (x + (step + 0.5) * cell, 301))
    p.text(left, 354, "?: not written yet", "soft halo", "start")
    return p


def tile() -> Picture:
    """Two ways to cut a matrix into blocks, drawn over its tiles."""
    array, blocks = (32, 256), ((32, 32), (32, 128))
    p = Picture(
        "tile",
        f"The ({SUBLANES}, {LANES}) tile, and why a (32, 32) block is refused",
        f"A float32 matrix of {array[0]} by {array[1]} is stored in tiles of {SUBLANES} rows "
        f"by {LANES} lanes. Blocks of 32 by 32 cut every tile into pieces and are refused; blocks "
        "of 32 by 128 consist of whole tiles and are accepted.",
        456,
    )
    for top, block in zip((0, 236), blocks, strict=True):
        _cut(p, top + 30, array, block)
    return p


def _cut(p: Picture, top: float, array: Block, block: Block) -> None:
    """One matrix with its tiles (thick) and its blocks (dashed); block (0, 1) is coloured."""
    left, across, down = 22, 1.74, 4.0  # pixels a lane, pixels a row
    rows, lanes = array
    accepted = legal(block, array)
    verdict = "accepted" if accepted else "refused"
    p.text(0, top - 14, f"block ({comma(block).replace(',', ', ')}): {verdict}", *BOLD, size=15)
    x, w = left + block[1] * across, block[1] * across
    p.box(x, top, w, block[0] * down, "green" if accepted else "red")
    p.text(x + w / 2, top + 1.5 * SUBLANES * down + 5, "(0, 1)", "ink")
    for lane in range(0, lanes + 1, block[1]):
        p.line((left + lane * across, top), (left + lane * across, top + rows * down), "dash")
        p.text(left + lane * across, top + rows * down + 16, str(lane), "soft halo", size=12)
    for row in range(0, rows + 1, SUBLANES):
        y = top + row * down
        p.line((left, y), (left + lanes * across, y), "thick")
        p.text(left - 6, y + 4, str(row), "soft halo", "end", size=12)
    for lane in range(0, lanes + 1, LANES):
        p.line((left + lane * across, top), (left + lane * across, top + rows * down), "thick")
    _told(p, top + rows * down + 36, block)
    key = f"thick lines: tiles of {SUBLANES} × {LANES}, {amount(TILE)} each"
    p.text(WIDTH, top - 14, key, "soft halo", "end", size=12)


def _told(p: Picture, y: float, block: Block) -> None:
    """What block (0, 1) consists of, and at which lane of its tiles it begins."""
    part, lane = SUBLANES * min(block[1], LANES) * F32, block[1] % LANES
    tiles = -(-block[0] // SUBLANES) * -(-block[1] // LANES)
    share = (
        f"{amount(part)} out of each of {tiles} tiles" if part < TILE else f"{tiles} whole tiles"
    )
    begin = f"beginning at lane {lane} of each" + ", but a copy can't shift lanes" * (lane > 0)
    p.text(0, y, f"Block (0, 1) is {share},", at="start")
    p.text(0, y + 18, f"{begin}.", at="start")


def overlap() -> Picture:
    """Copies and bodies of five steps in time, and what the four buffers hold at each moment."""
    steps, fetch, body, send = 5, 2, 3, 1
    done = pipeline(steps, fetch, body, send)
    total, alone = done[-1].send[1], steps * (fetch + body + send)
    p = Picture(
        "pipeline",
        "A pipeline with two buffers for each Ref",
        f"{steps} grid steps in time. While the body works on block s, block s + 1 is copied in "
        f"and block s - 1 is copied out. With {fetch} units of time for a copy in, {body} for a "
        f"body and {send} for a copy out, all steps take {total} units instead of {alone}.",
        372,
    )
    left, unit = 98, (WIDTH - 102) / total
    spans: list[tuple[str, int, list[tuple[int, tuple[int, int]]]]] = [
        ("copy in", 34, [(s, of.fetch) for s, of in enumerate(done)]),
        ("your body", 68, [(s, of.body) for s, of in enumerate(done)]),
        ("copy out", 102, [(s, of.send) for s, of in enumerate(done)]),
    ]
    for half in (0, 1):
        every = [(s, of) for s, of in enumerate(done) if s % 2 == half]
        held = [(s, (of.fetch[0], of.body[1])) for s, of in every]
        filled = [(s, (of.body[0], of.send[1])) for s, of in every]
        spans += [
            (f"buffer {half}", 174 + 30 * half, held),
            (f"buffer {half}", 276 + 30 * half, filled),
        ]
    for label, y, bars in spans:
        p.text(left - 8, y + 17, label, at="end")
        for s, (start, stop) in bars:
            look = "gold" if s % 2 else "blue"
            p.box(left + start * unit, y, (stop - start) * unit, 24, look, str(s))
    p.text(0, 20, "which block each of them works on", *BOLD)
    p.text(0, 164, "x_ref: what its buffers hold", *BOLD)
    p.text(0, 266, "o_ref: what its buffers hold", *BOLD)
    p.arrow((360, 14), (WIDTH - 2, 14))
    p.text(354, 19, "time", "soft halo", "end")
    words = f"in {fetch}, body {body}, out {send}: {total} time units, or {alone} without overlap"
    p.text(WIDTH / 2, 362, words, "soft halo")
    return p


def matmul() -> Picture:
    """The blocks that a tiled matmul visits, step by step, and its sums."""
    m, n, k, bm, bn, bk = 256, 256, 384, 128, 128, 128
    grid = (m // bm, n // bn, k // bk)
    steps = list(itertools.product(*map(range, grid)))
    now = steps.index((1, 0, 1))
    p = Picture(
        "matmul",
        "A tiled matmul, step by step",
        f"A grid of {grid[0]} by {grid[1]} by {grid[2]} is {len(steps)} steps, k innermost. Step "
        f"(i, j, k) reads block (i, k) of x and block (k, j) of y and adds their product to the "
        f"accumulator. After every {grid[2]} steps a sum is complete, and a block of the result "
        "is copied to HBM.",
        456,
    )
    i, j, c = steps[now]
    _matrices(p, grid, steps[now])
    p.text(0, 24, f"({m} × {k}) @ ({k} × {n})", *BOLD, size=15)
    p.text(0, 44, f"bm = {bm}, bn = {bn}, bk = {bk}", at="start")
    p.text(0, 62, f"step (i, j, k) = ({comma(steps[now]).replace(',', ', ')})", at="start")
    p.text(0, 84, f"o {i},{j} += x {i},{c} @ y {c},{j}", at="start")
    _timeline(p, grid, steps, now)
    read = moves((s[0], s[2]) for s in steps) + moves((s[2], s[1]) for s in steps)
    sent = moves(s[:2] for s in steps)
    size = amount((read * bm * bk + sent * bm * bn) * BF16)
    words = f"{len(steps)} steps read {read} blocks and write {sent}: {size} in bfloat16"
    p.text(WIDTH / 2, 448, words, "soft halo")
    return p


def _matrices(p: Picture, grid: Block, step: Block) -> None:
    """x to the left of the result and y above it, with the blocks of one step coloured."""
    (rows, columns, depth), (i, j, k), cell = grid, step, 34
    left, top = 300, 12 + depth * cell + 12
    places = (
        ("x", left - 14 - depth * cell, top, rows, depth, (i, k), "blue"),
        ("y", left, 12, depth, columns, (k, j), "green"),
        ("o", left, top, rows, columns, (i, j), "gold"),
    )
    for name, x, y, down, across, used, colour in places:
        for r, c in itertools.product(range(down), range(across)):
            look = colour if (r, c) == used else "bare"
            p.box(x + c * cell, y + r * cell, cell, cell, look, comma((r, c)), size=12)
        away = x - 12 if name == "x" else x + across * cell + 12
        p.text(away, y + down * cell / 2 + 5, name, "ink halo code bold", size=15)


def _timeline(p: Picture, grid: Block, steps: list[Block], now: int) -> None:
    left, top, depth = 54, 230, grid[2]
    unit = (WIDTH - left - 4) / len(steps)
    labels = ("i j k", "x", "y", "acc", "o")
    tops = dict(zip(labels, (top, top + 34, top + 66, top + 98, top + 154), strict=True))
    for label, y in tops.items():
        p.text(0, y + (34 if label == "acc" else 18), label, "ink halo code", "start")
    for s, (i, j, k) in enumerate(steps):
        x = left + s * unit
        p.text(x + unit / 2, top + 17, f"{i}{j}{k}", "ink halo code" + " bold" * (s == now))
        p.box(x, tops["x"], unit, 26, "blue" if s == now else "bare", comma((i, k)), size=12)
        p.box(x, tops["y"], unit, 26, "green" if s == now else "bare", comma((k, j)), size=12)
        high = 48 * (k + 1) / depth
        p.box(x, tops["acc"] + 48 - high, unit, high, "gold" if s == now else "grey")
        p.text(x + unit / 2, tops["acc"] + 43, f"{k + 1}/{depth}", "ink", size=12)
        if k == depth - 1:
            first = x - (depth - 1) * unit
            look = "gold" if (i, j) == steps[now][:2] else "bare"
            p.box(first, tops["o"], depth * unit, 26, look, comma((i, j)), size=12)
            p.arrow((x + unit - 7, tops["o"] + 27), (x + unit - 7, tops["o"] + 42))
            p.text(x + unit - 14, tops["o"] + 42, "to HBM", "soft halo", "end", size=12)


PICTURES = (memory, index_map, tile, overlap, matmul)

if __name__ == "__main__":
    sys.exit(main("1_basics", PICTURES))
