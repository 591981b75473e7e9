"""Draw the pictures of 3_attention: `python tools/draw_attention.py`, or `--check` to compare."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence

from drawing import BF16, BOLD, F32, SMALL, WIDTH, Block, Picture, amount, main, moves

LOOKS = ("bare", "gold", "green")  # of blocks: skipped, partial, full
Table = Sequence[Sequence[int]]

T, S, H = 4096, 4096, 128  # one head at production size
BQ, BKV = 512, 512


def scores() -> Picture:
    """One head's arrays to scale, and the one block of scores that exists at a time."""
    rows, columns, cell = T // BQ, S // BKV, 24
    i, j = 2, 3
    whole, block, one = amount(T * S * F32), amount(BQ * BKV * F32), amount(T * H * BF16)
    steps = list(itertools.product(range(rows), range(columns)))
    kv, q = moves(step[1] for step in steps), moves(step[0] for step in steps)
    traffic = amount((2 * kv * BKV + 2 * q * BQ) * H * BF16)
    p = Picture(
        "scores",
        "The scores never exist as a whole",
        f"A square of {rows} by {columns} blocks: the scores of {T} queries and {S} keys, {whole} "
        f"in float32. Thin strips along its edges, to scale: q, k, v and o, {one} each in "
        f"bfloat16. In step ({i}, {j}) one block of scores, {block}, is computed in VMEM from "
        f"block {i} of q and block {j} of k. With block {j} of v, it goes into block {i} of o.",
        304,
    )
    left, top, side, thin = 84, 64, cell * columns, H * cell / BKV
    x, y = left + (j + 0.5) * cell, top + (i + 0.5) * cell
    for r, c in itertools.product(range(rows), range(columns)):
        look = "green" if (r, c) == (i, j) else "grey" if r == i and c < j else "bare"
        p.box(left + c * cell, top + r * cell, cell, cell, look)
    for name, at, look in (("q", left - 12 - thin, "blue"), ("o", left + side + 12, "gold")):
        p.box(at, top, thin, side)
        p.box(at, top + i * cell, thin, cell, look)
        away = -10 if name == "q" else thin + 10
        p.text(at + away, y + 5, name, "ink halo code bold", size=15)
    for name, at in (("k", top - 12 - thin), ("v", top + side + 12)):
        p.box(left, at, side, thin)
        p.box(left + j * cell, at, cell, thin, "blue")
        away = -6 if name == "k" else thin + 14
        p.text(x, at + away, name, "ink halo code bold", size=15)
    p.arrow((left - 11, y), (left - 1, y))
    p.arrow((left + side + 1, y), (left + side + 11, y))
    p.arrow((x, top - 11), (x, top - 1))
    p.arrow((x, top + side + 11), (x, top + side + 1))
    p.text(0, 16, f"one head, to scale: T = S = {T}, H = {H}", *BOLD, size=15)
    p.text(left + side, top + side + 34, f"{S} keys", "soft halo", "end")
    p.text(0, top + side - 18, f"{T}", "soft halo", "start")
    p.text(0, top + side - 2, "queries", "soft halo", "start")
    words = (
        ("The square", f"all scores: {whole}", "in float32, not stored"),
        ("Green", f"{BQ} × {BKV}: {block}", "in VMEM, in one step"),
        ("The strips", f"q, k, v, o: {one} each", "in bfloat16, in HBM"),
        ("", f"{len(steps)} steps: {traffic}", "of HBM traffic"),
    )
    for part, lines in enumerate(words):
        for line, text in enumerate(lines):
            look = "ink halo" + " bold" * (line == 0)
            p.text(324, 62 + 64 * part + 18 * line - 18 * (part == 3), text, look, "start")
    return p


def passes() -> Picture:
    """How often three kernels pass over a row of blocks."""
    blocks, m, n = 4, 4096, 8192
    kernels = (
        ("02 tiled_softmax", ("max", "sum", "result")),
        ("03 online_softmax", ("max and sum", "result")),
        ("04 attention_one_q_block", ("max, sum, weighted sum",)),
    )
    longest = max(len(stages) for _, stages in kernels) * blocks
    p = Picture(
        "passes",
        "Three passes over a row of blocks, then two, then one",
        f"Steps in time along a row of {blocks} blocks. The tiled softmax reads every block three "
        "times: for the maximum, for the sum, and for the result. The online softmax reads it "
        "twice. Attention reads each block of keys and values once, and writes at the end.",
        326,
    )
    left, unit, looks = 4, (WIDTH - 8) / longest, ("blue", "green", "gold")
    for row, (name, stages) in enumerate(kernels):
        y, reads = 16 + 102 * row, len(stages)
        trips = amount((reads + 1) * m * n * BF16)
        told = f"x: {reads} reads, 1 write, {trips}" if reads > 1 else "k, v: 1 read; o: 1 write"
        p.text(0, y, name, *BOLD, size=15)
        p.text(WIDTH, y, told, "soft halo", "end")
        for stage, what in enumerate(stages):
            x, last = left + stage * blocks * unit, stage == reads - 1
            p.text(x + blocks * unit / 2 + 6 * (reads == 1), y + 20, what)
            for block in range(blocks):
                look = looks[2] if last and reads > 1 else looks[stage]
                p.box(x + block * unit, y + 26, unit, 28, look, str(block))
                if last and (reads > 1 or block == blocks - 1):
                    p.arrow((x + (block + 0.5) * unit, y + 55), (x + (block + 0.5) * unit, y + 71))
    p.text(0, 318, f"the bytes are for x of {m} × {n} in bfloat16", "soft halo", "start")
    return p


def online() -> Picture:
    """Running maximum and rescaled sum over a row of twelve scores in four blocks."""
    row = ((1.0, 2.0, 0.5), (1.5, 4.0, 3.0), (0.5, 2.5, 3.5), (5.0, 4.5, 1.0))
    steps, flat = running(row), list(itertools.chain(*row))
    once = sum(math.exp(score - max(flat)) for score in flat)
    p = Picture(
        "online",
        "The running maximum, and a sum that is rescaled to it",
        f"{len(flat)} scores in {len(row)} blocks, as bars, and the running maximum as a line over "
        f"them: {', '.join(f'{m:g}' for m, _, _ in steps)}. Each step multiplies the old sum by "
        "alpha, the exponential of the old maximum minus the new one, and adds the exponentials "
        "of its own block. The last sum is the sum of all exponentials.",
        384,
    )
    left, column, base, high, wide = 78, 100, 186, 32, 26
    p.line((left, base), (left + column * len(row), base))
    before = 0.0
    for step, (block, (m, alpha, total)) in enumerate(zip(row, steps, strict=True)):
        x = left + step * column
        p.text(x + column / 2, 16, f"step {step}", "ink halo bold")
        for place, score in enumerate(block):
            at = x + 11 + place * wide
            p.box(at, base - score * high, wide, score * high, "blue")
            p.text(at + wide / 2, base + 15, f"{score:g}", "soft halo", size=12)
        p.line((x, base - m * high), (x + column, base - m * high), "thick")
        cells = (f"{m:g}", f"{alpha:.3f}", f"{total - alpha * before:.3f}", f"{total:.3f}")
        looks = ("grey", "gold", "blue", "green")
        for line, (cell, look) in enumerate(zip(cells, looks, strict=True)):
            p.box(x + 11, 218 + 34 * line, column - 22, 26, look, cell)
        before = total
    for line, label in enumerate(("m", "alpha", "block's", "l")):
        look = "ink halo" if label == "block's" else "ink halo code"
        p.text(0, 236 + 34 * line, label, look, "start")
    p.text(0, 92, "scores,", at="start")
    p.text(0, 110, "and m as", at="start")
    p.text(0, 128, "a line", at="start")
    words = f"l = alpha × the previous l + the block's sum; all at once: {once:.3f}"
    p.text(WIDTH / 2, 374, words, "soft halo")
    return p


def running(row: Sequence[Sequence[float]]) -> list[tuple[float, float, float]]:
    """For each block of a row: the maximum so far, the factor of the old sum, the new sum."""
    m, total = -math.inf, 0.0
    done: list[tuple[float, float, float]] = []
    for block in row:
        m, old = max(m, *block), m
        alpha = math.exp(old - m)
        total = alpha * total + sum(math.exp(score - m) for score in block)
        done.append((m, alpha, total))
    return done


def causal() -> Picture:
    """A causal square of blocks, and which blocks are computed and copied in each step."""
    t, bq, bkv = 2048, 512, 512
    rows, columns = t // bq, t // bkv
    steps = list(itertools.product(range(rows), range(columns)))
    kinds = {(i, j): kind(i, j, bq, bkv) for i, j in steps}
    plain = [j for _, j in steps]
    stays = [min(j, (i * bq + bq - 1) // bkv) for i, j in steps]
    ahead = [j if kinds[i, j] else 0 for i, j in steps]
    p = Picture(
        "causal",
        "Causal blocks, and the copies that pl.when does not save",
        f"{rows} by {columns} blocks of scores; above the diagonal they are empty, on it partial, "
        f"below it full. In time: pl.when skips the work of the {list(kinds.values()).count('')} "
        f"empty steps, but k's and v's blocks are copied {moves(plain)} times. With an index map "
        f"that stays where it is in empty steps, {moves(stays)} times. An index map that names "
        f"the next row's first block in them makes {moves(ahead)} copies too, but earlier.",
        476,
    )
    cell, left, top = 44, 40, 44
    looks = {"full": "green", "partial": "gold", "": "bare"}
    p.text(0, 16, f"T = {t}, bq = bkv = {bq}", *BOLD, size=15)
    for (i, j), what in kinds.items():
        p.box(left + j * cell, top + i * cell, cell, cell, looks[what], f"{i},{j}", size=12)
    for n in range(rows):
        p.text(left - 6, top + (n + 0.5) * cell + 5, f"i={n}", "soft halo", "end", size=12)
        p.text(left + (n + 0.5) * cell, top - 6, f"j={n}", "soft halo", size=12)
    legend = (
        ("green", "full", "every query sees every key:", "no mask"),
        ("gold", "partial", "the diagonal crosses it:", "masked scores"),
        ("bare", "empty", "no query sees any key:", "nothing to compute"),
    )
    for n, (look, name, *told) in enumerate(legend):
        y = top + 62 * n
        p.box(244, y, 22, 22, look)
        p.text(274, y + 16, name, *BOLD)
        for line, words in enumerate(told):
            p.text(274, y + 33 + 16 * line, words, at="start")
    maps = (
        (plain, "pl.when alone"),
        (stays, "an index map that stays in empty steps"),
        (ahead, "one that goes on to the next row's first block"),
    )
    copied = [("k, v", "blue", blocks) for blocks, _ in maps]
    _copies(p, 266, steps, [looks[what] for what in kinds.values()], copied)
    for n, (blocks, words) in enumerate(maps):
        p.text(76, 369 + 48 * n, f"{words}: {moves(blocks)} copies", *SMALL)
    return p


def kind(i: int, j: int, bq: int, bkv: int) -> str:
    """What block (i, j) of a causal mask is."""
    if j * bkv > i * bq + bq - 1:
        return ""
    return "full" if j * bkv + bkv - 1 <= i * bq else "partial"


def _copies(
    p: Picture,
    top: float,
    steps: list[Block],
    body: list[str],
    copied: Iterable[tuple[str, str, Sequence[int]]],
) -> None:
    """Steps in time: the body's work, then for each operand the blocks that are copied."""
    left = 76
    unit = (WIDTH - left - 2) / len(steps)
    p.text(0, top + 15, "step", at="start")
    p.text(0, top + 42, "body", at="start")
    for s, step in enumerate(steps):
        p.text(left + (s + 0.5) * unit, top + 15, "".join(map(str, step)), "ink halo code", size=12)
        p.box(left + s * unit, top + 24, unit, 26, body[s])
    for line, (name, look, blocks) in enumerate(copied):
        y = top + 62 + 48 * line
        p.text(0, y + 18, name, at="start")
        for s, block in enumerate(blocks):
            if s == 0 or block != blocks[s - 1]:
                p.box(left + s * unit, y, unit, 26, look, str(block), size=12)


def splash() -> Picture:
    """A mask, the three tables that describe it, and the steps that they drive."""
    size, bq, bkv, window = 16, 4, 4, 8
    seen = [[0 <= query - key < window for key in range(size)] for query in range(size)]
    kinds, data, masks = tables(seen, bq, bkv)
    rows, depth = len(kinds), len(kinds[0])
    p = Picture(
        "splash",
        "A mask in blocks, and the tables that drive the index maps",
        f"A mask of {size} by {size}: each query sees {window} keys, up to its own. Three tables "
        f"name, row by row, the blocks that hold something: at most {depth} of {size // bkv}. A "
        "step without work names what the next step with work needs, so that nothing extra is "
        f"copied: {moves(itertools.chain(*data))} copies of k and v, "
        f"{moves(itertools.chain(*masks))} of masks.",
        442,
    )
    top, dot, high = 58, 11, 11 * bq
    p.text(0, 16, f"each query sees {window} keys; blocks of {bq} × {bkv}", *BOLD, size=15)
    p.text(0, top - 8, "keys \N{RIGHTWARDS ARROW}", "soft halo", "start")
    for query, key in itertools.product(range(size), repeat=2):
        if seen[query][key]:
            found = kinds[query // bq][data[query // bq].index(key // bkv)]
            p.box(2 + key * dot, top + query * dot, dot, dot, LOOKS[found])
    for n in range(size // bkv + 1):
        p.line((2 + n * bkv * dot, top), (2 + n * bkv * dot, top + size * dot), "thick")
    for n in range(rows + 1):
        p.line((1, top + n * high), (3 + size * dot, top + n * high), "thick")
    named = (("block_mask", kinds), ("data_next", data), ("mask_next", masks))
    for n, (name, table) in enumerate(named):
        left, cell = 214 + 92 * n, 26
        p.text(left + depth * cell / 2, top - 8, name, "ink halo code", size=12)
        for i, s in itertools.product(range(rows), range(depth)):
            at = (left + s * cell, top + i * high + 9, cell, high - 18)
            p.box(*at, LOOKS[kinds[i][s]], str(table[i][s]))
    legend = ((2, "full"), (1, "partial: masked"), (0, "skip: names what comes next"))
    for (value, words), x in zip(legend, (2, 86, 224), strict=True):
        p.box(x, top + size * dot + 14, 18, 18, LOOKS[value], str(value), size=12)
        p.text(x + 25, top + size * dot + 28, words, at="start")
    steps = list(itertools.product(range(rows), range(depth)))
    flat = [list(itertools.chain(*table)) for table in (kinds, data, masks)]
    copied = (("k, v", "blue", flat[1]), ("mask", "gold", flat[2]))
    _copies(p, 290, steps, [LOOKS[found] for found in flat[0]], copied)
    return p


def tables(seen: Table, bq: int, bkv: int) -> tuple[Table, Table, Table]:
    """The tables of kata 09: block_mask, data_next and mask_next."""
    found: list[list[tuple[int, int, int]]] = []
    partial: list[Table] = []
    for i in range(0, len(seen), bq):
        found.append([])
        for j in range(0, len(seen[0]), bkv):
            block = [row[j : j + bkv] for row in seen[i : i + bq]]
            bits = list(itertools.chain(*block))
            if any(bits) and not all(bits) and block not in partial:
                partial.append(block)
            if any(bits):
                which = -1 if all(bits) else partial.index(block)
                found[-1].append((2 if all(bits) else 1, j // bkv, which))
    depth = max(map(len, found))
    flat = [step for row in found for step in row + [(0, -1, -1)] * (depth - len(row))]
    kinds, data, masks = (list(column) for column in zip(*flat, strict=True))
    return cut(kinds, depth), cut(upcoming(data), depth), cut(upcoming(masks), depth)


def cut(values: list[int], depth: int) -> Table:
    return [values[n : n + depth] for n in range(0, len(values), depth)]


def upcoming(values: list[int]) -> list[int]:
    """Replace each -1 with the next value, or at the end with the last one."""
    after = next(value for value in reversed(values) if value >= 0)
    filled: list[int] = []
    for value in reversed(values):
        after = after if value < 0 else value
        filled.append(after)
    return filled[::-1]


def backward() -> Picture:
    """Which kernel of the backward pass reads what, and writes what."""
    both = "q k v lse do delta"
    kernels = (
        ("forward", "q k v", "o lse"),
        ("the loss", "o", "do"),
        ("12 delta", "o do", "delta"),
        ("13 dq", both, "dq"),
        ("14 dkv", both, "dk dv"),
    )
    small, large = amount(T * F32), amount(T * H * BF16)
    p = Picture(
        "backward",
        "The kernels of the backward pass, and the arrays that they pass on",
        "A table of kernels in time, from top to bottom, and arrays. "
        + " ".join(f"{name} reads {reads} and writes {made}." for name, reads, made in kernels),
        324,
    )
    left, column, top, row = 90, 39, 44, 46
    arrays = list(dict.fromkeys(" ".join(reads + " " + made for _, reads, made in kernels).split()))
    for place, array in enumerate(arrays):
        x = left + (place + 0.5) * column
        p.text(x, 34, array, "ink halo code", size=12)
        users = [n for n, (_, *sides) in enumerate(kernels) if array in " ".join(sides).split()]
        p.line((x, top + (users[0] + 0.5) * row), (x, top + (users[-1] + 0.5) * row))
        for n in users:
            look = "gold" if array in kernels[n][2].split() else "blue"
            p.box(left + place * column + 5, top + n * row + 10, column - 10, row - 20, look)
    for n, (name, _, _) in enumerate(kernels):
        p.text(0, top + (n + 0.5) * row + 5, name, "ink halo" + " bold" * (name[0] != "t"), "start")
    p.text(0, 16, "in HBM:", at="start")
    for x, look, words in ((left + 5, "gold", "written"), (left + 110, "blue", "read")):
        p.box(x, 4, 16, 16, look)
        p.text(x + 24, 17, words, at="start")
    sizes = f"lse, delta: {small} for a head of T = {T}; the others: {large} (bfloat16, H = {H})"
    p.text(WIDTH / 2, top + 5 * row + 30, sizes, "soft halo", size=12)
    return p


def directions() -> Picture:
    """Two walks over the blocks of scores, and how a block of them lies in each."""
    p = Picture(
        "directions",
        "dq is summed along rows of blocks, dk and dv down columns",
        "Left: to sum dq, the kernel goes along a row of blocks of scores. lse and delta, rows in "
        "HBM, become columns beside the block of bq by bkv. Right: to sum dk and dv, the kernel "
        "goes down a column of blocks. The block is transposed, bkv by bq, and lse and delta lie "
        "along it as rows.",
        418,
    )
    _walk(p, 0, "13 dq", 1, None)
    _walk(p, 252, "14 dkv", None, 2)
    queries, keys, top, bar = 60, 120, 232, 12
    for left, across, down, names in (
        (0, keys, queries, ("bkv", "bq")),
        (252, queries, keys, ("bq", "bkv")),
    ):
        x = left + 34
        lies = across == queries
        p.box(x, top, across, down, "green", "pT, dsT" if lies else "ds")
        p.text(x + across / 2, top + down + 16, names[0], "soft halo code")
        p.text(x - (8 if lies else 18), top + down / 2 + 5, names[1], "soft halo code", "end")
        if lies:
            p.box(x, top - bar - 4, across, bar, "blue")
            p.text(x + across + 10, top - 6, "lse, delta:", at="start")
            p.text(x + across + 10, top + 12, "still rows", at="start")
        else:
            p.box(x - bar - 4, top, bar, down, "blue")
            p.text(left, top - 8, "lse, delta: columns", at="start")
    sums = ((0, ("dq[i] += ds @ k[j]",)), (252, ("dv[j] += pT @ do[i]", "dk[j] += dsT @ q[i]")))
    for left, lines in sums:
        for n, line in enumerate(lines):
            p.text(left, 392 + 18 * n, line, "ink halo code", "start")
    return p


def _walk(p: Picture, x: float, name: str, row: int | None, column: int | None) -> None:
    """The square of blocks, with an arrow along one of its rows or columns."""
    count, cell, top = 4, 30, 62
    left, side = x + 34, count * cell
    p.text(x, 16, name, *BOLD, size=15)
    p.text(left, top - 22, "keys \N{RIGHTWARDS ARROW}", "soft halo", "start")
    p.text(left, top + side + 18, "queries \N{DOWNWARDS ARROW}", "soft halo", "start")
    for r, c in itertools.product(range(count), range(count)):
        look = "green" if r == row or c == column else "bare"
        p.box(left + c * cell, top + r * cell, cell, cell, look)
    if row is not None:
        y = top + (row + 0.5) * cell
        p.arrow((left - 10, y), (left + side + 14, y))
        p.text(left - 16, y + 5, "i", "ink halo code", "end")
    if column is not None:
        at = left + (column + 0.5) * cell
        p.arrow((at, top - 6), (at, top + side + 14))
        p.text(at, top - 12, "j", "ink halo code")


PICTURES = (scores, passes, online, causal, splash, backward, directions)

if __name__ == "__main__":
    sys.exit(main("3_attention", PICTURES))
