"""Draw the pictures of 9_many_cores: `python tools/draw_many_cores.py`, or `--check` to compare."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from drawing import BF16, BOLD, F32, SMALL, WIDTH, Picture, amount, main, production

from pallascope.tpu.chips import CHIPS

CHIP = CHIPS["v5e"]
N = 4  # chips in the ring
LOOKS = ("blue", "gold", "green", "red")  # of the chips


@dataclass(frozen=True, slots=True)
class Sent:
    """A block that comes to a chip over one of its links, or a part of it."""

    block: int
    share: float = 1.0


def hops() -> Picture:
    """The blocks that come to chip 0 in three all-gathers, over both of its links, in time."""
    sizes = production("9_many_cores/kata_06_ring_all_gather")
    block = sizes["m"] * sizes["N"] * BF16
    seconds = block / CHIP.link
    left, right, across = N - 1, 1, N // 2
    ways = (
        ("06 ring_all_gather: one way", [Sent((N - hop) % N) for hop in range(1, N)], []),
        ("both ways, opposite block whole", [Sent(left), Sent(across)], [Sent(right)]),
        (
            "07 all_gather_both_ways: in halves",
            [Sent(left), Sent(across, 0.5)],
            [Sent(right), Sent(across, 0.5)],
        ),
    )
    busiest = [max(sum(one.share for one in link) for link in links) for _, *links in ways]
    told = [
        f"{count:g} blocks, {amount(int(count * block))}: {count * seconds * 1e6:.0f} µs"
        for count in busiest
    ]
    assert min(busiest) == (N - 1) / 2  # n - 1 blocks have to come in, over two links
    p = Picture(
        "hops",
        "Three ways to gather the blocks of four chips in a ring",
        f"The blocks that come to chip 0 over each of its links, in time, for blocks of "
        f"{amount(block)} and {CHIP.link / 1e9:.0f} GB/s. On the busiest link: "
        + "; ".join(f"{name}: {words}" for (name, *_), words in zip(ways, told, strict=True))
        + f". {N - 1} blocks over two links take no less than the last.",
        430,
    )
    p.text(0, 16, f"{N} chips, blocks of {amount(block)}", *BOLD, size=15)
    where = [(78.0, 44.0), (174.0, 44.0), (174.0, 108.0), (78.0, 108.0)]
    for chip, (x, y) in enumerate(where):
        p.box(x, y, 62, 30, LOOKS[chip], f"chip {chip}", 12)
    for start, end in (
        ((140, 53), (173, 53)),
        ((205, 75), (205, 107)),
        ((173, 117), (141, 117)),
        ((99, 107), (99, 75)),
    ):
        p.arrow(start, end)
    for start, end in (
        ((173, 66), (141, 66)),
        ((215, 107), (215, 75)),
        ((141, 130), (173, 130)),
        ((113, 75), (113, 107)),
    ):
        p.line(start, end, "dash")
        p.parts[-1] = p.parts[-1].replace("/>", ' marker-end="url(#head)"/>')
    for n, words in enumerate((
        "solid: one way, to the right",
        "dashed: the other way",
        f"a link: {CHIP.link / 1e9:.0f} GB/s each way,",
        f"{seconds * 1e6:.0f} µs a block",
    )):  # fmt: skip
        p.text(268, 58 + 22 * n, words, at="start")
    x, scale = 118.0, (WIDTH - 122) / (max(busiest) * seconds)
    for row, ((name, *links), words) in enumerate(zip(ways, told, strict=True)):
        y = 174 + 86 * row
        p.text(0, y, name, *BOLD)
        for lane, (link, source) in enumerate(zip(links, (left, right), strict=True)):
            top = y + 8 + 26 * lane
            p.text(0, top + 17, f"from chip {source}", at="start")
            at = x
            if not link:
                p.text(at, top + 17, "nothing", *SMALL)
            for one in link:
                wide = one.share * seconds * scale
                half = "half of " * (one.share < 1)
                p.box(at, top, wide, 24, LOOKS[one.block], f"{half}{one.block}", 12)
                at += wide
        p.text(WIDTH, y, words, "soft halo", "end", 12)
    p.text(0, 424, "numbers: the block that comes to chip 0", *SMALL)
    return p


def credits() -> Picture:
    """Two slots of a chip: when its left neighbour may overwrite them."""
    sizes = production("9_many_cores/kata_08_reduce_scatter")
    quarter = sizes["M"] // N * sizes["N"] * F32
    p = Picture(
        "credits",
        "A credit tells the left neighbour that a slot is free",
        f"Time from left to right, not to scale, for two slots of {amount(quarter)} on one chip. "
        "Without credits, the copy of hop 2 arrives in slot 0 while the chip still reads hop 0 "
        "there. With credits, the left neighbour waits until the chip signals that it has read "
        "slot 0, and then sends hop 2.",
        426,
    )
    p.text(0, 16, f"{N - 1} hops, two slots of {amount(quarter)}", *BOLD, size=15)
    left, unit, pitch, high = 104, 46, 46, 26
    lanes = ("left sends", "my slot 0", "my slot 1")
    for row, (name, waits) in enumerate((("without credits", 0), ("with credits", 1))):
        y = 46 + 186 * row
        tops = [y + 12 + pitch * lane for lane in range(len(lanes))]
        p.text(0, y, name, *BOLD)
        for top, words in zip(tops, lanes, strict=True):
            p.text(0, top + 18, words, at="start")
            p.line((left, top + high + 4), (WIDTH - 2, top + high + 4), "dash")

        def bar(lane: int, start: float, end: float, look: str, words: str, tops: list[int] = tops):
            p.box(left + start * unit, tops[lane], (end - start) * unit, high, look, words, 12)

        for hop, start in enumerate((0, 2, 4 + waits)):
            bar(0, start, start + 2, "blue", f"hop {hop}")
            if hop < 2 or waits:
                bar(1 + hop % 2, start, start + 2, "grey", f"hop {hop} comes")
        bar(1, 2, 5 if waits else 4, "green", "read hop 0")
        bar(2, 5, 7, "green", "read hop 1")
        if waits:
            x = left + 5 * unit
            p.arrow((x, tops[1]), (x, tops[0] + high + 2))
            p.text(x + 8, tops[1] - 5, "credit", *SMALL)
            p.text(left + 4.5 * unit, tops[0] + 18, "waits", "soft halo", size=12)
        else:
            bar(1, 4, 6, "red", "hop 2 comes")
            p.text(left + 6 * unit + 8, tops[1] + 18, "still reading", "ink halo", "start", 12)
    words = "red: hop 2 overwrites hop 0 before the sum has it"
    p.text(0, 418, words, *SMALL)
    return p


def zigzag() -> Picture:
    """Which chip computes which square of a causal score matrix, and its work in each hop."""
    pieces = 2 * N
    plain = [(2 * chip, 2 * chip + 1) for chip in range(N)]
    zig = [(chip, pieces - 1 - chip) for chip in range(N)]
    ways = (("plain split", plain), ("zig-zag", zig))
    found = [squares(split) for _, split in ways]
    waited = [sum(max(chip[hop] for chip in work) for hop in range(N)) for work in found]
    p = Picture(
        "zigzag",
        "Ring attention: a plain split and a zig-zag of a causal mask",
        f"Two squares of {pieces} by {pieces} pieces, empty above the diagonal. The colour of a "
        "row is the chip that has these queries. Below, the squares that each chip computes in "
        "hops 0 to 3. "
        + " ".join(
            f"{name}: {'; '.join(', '.join(f'{n:g}' for n in chip) for chip in work)}; with the "
            f"slowest chip of each hop {total:g} squares."
            for (name, _), work, total in zip(ways, found, waited, strict=True)
        ),
        422,
    )
    cell, top, unit = 21, 56, 12.6
    p.text(0, 16, f"{N} chips, {pieces} pieces of queries and keys", *BOLD, size=15)
    for column, ((name, split), work, total) in enumerate(zip(ways, found, waited, strict=True)):
        left = 30 + 250 * column
        p.text(left, top - 12, name, *BOLD)
        owner = {piece: chip for chip, of in enumerate(split) for piece in of}
        for q in range(pieces):
            p.text(left - 6, top + q * cell + 15, str(q), "soft halo", "end", 12)
            for k in range(pieces):
                x, y = left + k * cell, top + q * cell
                p.box(x, y, cell, cell, LOOKS[owner[q]] if k < q else "bare")
                if k == q:
                    p.parts.append(
                        f'<path d="M{x:g} {y:g} v{cell} h{cell} z" class="edge {LOOKS[owner[q]]}"/>'
                    )
        below = top + pieces * cell + 40
        p.text(left - 28, below - 14, "squares in each hop", "ink halo", "start")
        for chip in range(N):
            y = below + chip * 26
            p.text(left - 28, y + 16, f"chip {chip}", at="start", size=12)
            at = left + 16.0
            for hop in range(N):
                slowest = max(each[hop] for each in work)
                here = work[chip][hop]
                if here:
                    p.box(at, y, here * unit, 21, LOOKS[chip], f"{here:g}", 12)
                if here < slowest:
                    p.box(at + here * unit, y, (slowest - here) * unit, 21, "bare dash")
                at += slowest * unit
        words = f"{sum(map(sum, work)):g} squares, in the time of {total:g}"
        p.text(left - 28, below + N * 26 + 16, words, *SMALL)
    p.text(2, 412, "row: a piece of queries; column: a piece of keys; dashed: waits", *SMALL)
    return p


def squares(split: Sequence[tuple[int, int]]) -> list[list[float]]:
    """For each chip and hop, the squares of the causal mask that it computes; a half on the
    diagonal."""
    work = [[0.0] * N for _ in split]
    for (chip, queries), (source, keys) in itertools.product(enumerate(split), repeat=2):
        for q, k in itertools.product(queries, keys):
            work[chip][(chip - source) % N] += 1.0 if k < q else 0.5 if k == q else 0.0
    return work


PICTURES = (hops, credits, zigzag)

if __name__ == "__main__":
    sys.exit(main("9_many_cores", PICTURES))
