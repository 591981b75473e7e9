"""Draw the pictures of 6_serving: `python tools/draw_serving.py`, or `--check` to compare."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence

from drawing import BOLD, SMALL, WIDTH, Picture, comma, main, production

LOOKS = ("blue", "red", "gold", "green", "grey")  # of sequences


def pages() -> Picture:
    """The example of kata 04: lengths, a page table, and the pool that it points into."""
    size, pool = 4, 7
    lengths, tables = (6, 0, 11), ((5, 2), (), (5, 0, 3))
    room = max(map(len, tables))
    owners = {page: [b for b, table in enumerate(tables) if page in table] for page in range(pool)}
    shared = [page for page, of in owners.items() if len(of) > 1]
    said = "; ".join(
        f"sequence {b} has {length} keys in {len(table)} pages" + f": {comma(table)}" * bool(table)
        for b, (length, table) in enumerate(zip(lengths, tables, strict=True))
    )
    p = Picture(
        "pages",
        "A table names the pages of each sequence, anywhere in the pool",
        f"{said[0].upper()}{said[1:]}. Arrows lead from the entries of the table to the {pool} "
        f"pages of the pool. Page {shared[0]} belongs to two sequences. Free pages, and slots past "
        "a length, hold garbage.",
        390,
    )
    p.text(0, 16, f"pages of P = {size} keys", *BOLD, size=15)
    left, wide, high, unit = 152, 78, 26, 58
    for t in range(room):
        keys = f"t = {t * size}..{t * size + size - 1}"
        p.text(left + (t + 0.5) * wide, 40, keys, "soft halo", size=12)
    bottom, across = 254, 64.0
    for b, table in enumerate(tables):
        for t, page in enumerate(table):
            x, y = left + (t + 0.3 + 0.2 * b) * wide, 50 + b * 44 + high
            p.arrow((x, y), (across + (page + 0.5) * unit + (b - 1) * 6, bottom - 4))
    for b, (length, table) in enumerate(zip(lengths, tables, strict=True)):
        y = 50 + b * 44
        p.text(0, y + 18, f"sequence {b}:", at="start")
        p.text(left - 12, y + 18, f"{length} keys", at="end")
        for t in range(room):
            page = table[t] if t < len(table) else None
            look = "bare" if page is None else "green" if page in shared else LOOKS[b]
            p.box(left + t * wide, y, wide, high, look, "?" if page is None else str(page))
    p.text(left + room * wide + 10, 50 + 18, "table", "ink halo code", "start")
    p.text(0, bottom + 14, "page", at="start")
    for page in range(pool):
        x = across + page * unit
        of = owners[page]
        held = [min(size, lengths[b] - size * tables[b].index(page)) for b in of]
        p.text(x + unit / 2, bottom + 14, str(page), "ink halo bold")
        for slot in range(size):
            there = any(slot < count for count in held)
            look = "bare" if not there else "green" if page in shared else LOOKS[of[0]]
            words = "" if of or slot else "free"
            if there:
                first = size * tables[of[0]].index(page)
                words = f"key {first + slot}"
            p.box(x + 2, bottom + 22 + slot * 22, unit - 4, 22, look, words, 12)
    p.text(0, bottom + 60, "pool", at="start")
    key = lengths[2] - 1
    words = (
        f"key {key} of sequence 2: page table[2, {key // size}] = {tables[2][key // size]}, "
        f"slot {key} % {size} = {key % size}; green: shared"
    )
    p.text(0, bottom + 132, words, *SMALL)
    return p


def ragged() -> Picture:
    """The batch of kata 07's docstring: tokens in q blocks, visits, and turns over pages."""
    starts, bq, size, together = (0, 6, 6, 7, 8, 12), 4, 4, 2
    lengths = (6, 9, 13, 7, 10)  # all tokens of each sequence, with those of this batch
    tokens, count = starts[-1], len(lengths)
    news = [end - start for start, end in itertools.pairwise(starts)]
    visits = [
        (seq, block)
        for seq, (start, end) in enumerate(itertools.pairwise(starts))
        if start < end
        for block in range(start // bq, -(-end // bq))
    ]
    keys = [lengths[s] - max(starts[s + 1] - (block + 1) * bq, 0) for s, block in visits]
    turns = [-(-seen // (together * size)) for seen in keys]
    p = Picture(
        "ragged",
        "A ragged batch: visits of sequences to blocks of tokens, over pages",
        f"{tokens} tokens of {count} sequences in blocks of {bq}. {len(visits)} pairs of a "
        f"sequence and a block share tokens: "
        + ", ".join(f"sequence {s} in block {block}" for s, block in visits)
        + f". Each visit reads its sequence's pages in turns of {together}, up to the last key "
        f"that its tokens see: {', '.join(map(str, keys))} keys, {sum(turns)} turns in all.",
        460,
    )
    left, unit, top, high = 156, (WIDTH - 158) / tokens, 60, 26
    p.text(0, 16, f"{tokens} tokens, q blocks of bq = {bq}", *BOLD, size=15)
    p.text(0, 43, "token", at="start")
    for seq, (start, end) in enumerate(itertools.pairwise(starts)):
        y = top + seq * high
        p.text(0, y + 18, f"sequence {seq}: {news[seq]} of {lengths[seq]}", at="start")
        p.line((left, y), (left + tokens * unit, y), "dash")
        for token in range(start, end):
            p.box(left + token * unit, 26, unit, 24, LOOKS[seq], str(token), 12)
    bottom = top + count * high
    for block in range(tokens // bq + 1):
        x = left + block * bq * unit
        p.line((x, 22), (x, bottom), "thick")
        if block < tokens // bq:
            p.text(x + bq * unit / 2, bottom + 16, f"q block {block}", "soft halo")
    for number, (seq, block) in enumerate(visits):
        first, last = max(starts[seq], block * bq), min(starts[seq + 1], (block + 1) * bq)
        x, w = left + first * unit, (last - first) * unit
        p.box(x, top + seq * high + 3, w, high - 6, LOOKS[seq], str(number))
    below = bottom + 50
    heads = (("visit", 16), ("seq", 56), ("q block", 106))
    for words, x in heads:
        p.text(x, below, words, "ink halo bold")
    cell, gap = 15, 5  # of a key; after a page
    turn = together * (size * cell + gap) + 16
    for number in range(max(turns)):
        p.text(left + number * turn, below, f"turn {number}", *BOLD)
    for number, ((seq, block), seen) in enumerate(zip(visits, keys, strict=True)):
        y = below + 12 + number * 34
        for words, (_, x) in zip((number, seq, block), heads, strict=True):
            p.text(x, y + 17, str(words))
        for key in range(-(-seen // size) * size):
            which, place = divmod(key, together * size)
            x = left + which * turn + place * cell + place // size * gap
            p.box(x, y, cell, 24, LOOKS[seq] if key < seen else "bare", str(key), 10)
    y = below + 26 + len(visits) * 34
    words = f"numbers: keys, in pages of {size}, {together} pages a turn; empty: not seen"
    p.text(0, y, words, *SMALL)
    p.text(0, y + 18, f"{len(visits)} visits, {sum(turns)} turns: the steps of the grid", *SMALL)
    return p


def splits() -> Picture:
    """Parts of one softmax, and how their log-sum-exps weigh them."""
    sizes = production("6_serving/kata_03_split_k_decode")
    parts, bs, room = sizes["splits"], sizes["bs"], sizes["S"]
    length = room - room // 4 + 1  # as the kata's inputs have it
    blocks = ((1.0, 3.0), (2.0, 0.5), (4.0, 1.5), (1.0, 2.5), (0.5, 2.0), (3.0, 3.5))
    values = ((1.0, 2.0), (4.0, 3.0), (2.0, 1.0), (5.0, 4.0), (3.0, 2.0), (1.0, 6.0))
    found = [part_of(blocks[n::parts], values[n::parts]) for n in range(parts)]
    whole, lse = part_of(blocks, values)
    weights = [math.exp(one[1] - lse) for one in found]
    merged = sum(w * one[0] for w, one in zip(weights, found, strict=True))
    assert math.isclose(merged, whole)
    p = Picture(
        "splits",
        "Two splits of a sequence, and the merge of their parts",
        f"{len(blocks)} blocks of scores, given to {parts} splits in turn. Each split computes the "
        "mean of its values and its log-sum-exp: "
        + "; ".join(f"split {n}: {o:.3f} and {e:.3f}" for n, (o, e) in enumerate(found))
        + f". The merge weighs the parts by the exponentials of these: "
        f"{' and '.join(f'{w:.3f}' for w in weights)}. The result, {merged:.3f}, is that of all "
        "keys at once.",
        356,
    )
    p.text(0, 16, f"{len(blocks)} blocks of keys, {parts} splits", *BOLD, size=15)
    left, wide, base, high = 76, 66, 134, 20
    p.text(0, base - 36, "scores", at="start")
    p.line((left, base), (left + wide * len(blocks), base))
    for n, (block, of) in enumerate(zip(blocks, values, strict=True)):
        look = LOOKS[2 * (n % parts)]
        x = left + n * wide
        p.text(x + wide / 2, 40, f"block {n}", "soft halo", size=12)
        for place, (score, value) in enumerate(zip(block, of, strict=True)):
            at = x + 7 + place * 26
            p.box(at, base - score * high, 26, score * high, look)
            p.text(at + 13, base + 16, f"{value:g}", "soft halo", size=12)
    p.text(0, base + 16, "values", at="start")
    for n, ((mean, total), weight) in enumerate(zip(found, weights, strict=True)):
        y = 172 + n * 46
        p.box(1, y, 196, 34, LOOKS[2 * n])
        p.text(99, y + 14, f"split {n}, own softmax over", "ink", size=12)
        which = ", ".join(str(block) for block in range(n, len(blocks), parts))
        p.text(99, y + 29, f"blocks {which}", "ink", size=12)
        p.arrow((200, y + 17), (222, y + 17))
        p.box(226, y, 120, 34, LOOKS[2 * n])
        p.text(286, y + 14, f"part {mean:.3f}", "ink", size=12)
        p.text(286, y + 29, f"lse {total:.3f}", "ink", size=12)
        p.arrow((349, y + 17), (371, y + 17))
        p.text(376, y + 22, f"× {weight:.3f}", "ink halo", "start")
    y = 172 + parts * 46
    p.text(0, y + 22, "merge: weights exp(lse) / sum of exp(lse)", at="start")
    p.box(376, y + 4, 100, 28, "green", f"= {merged:.3f}")
    blocks_there = -(-length // bs)
    for line, words in enumerate((
        f"A softmax over all {sum(map(len, blocks))} keys at once gives {whole:.3f}.",
        f"At production size: {length:,} keys, {blocks_there} blocks of {bs}: "
        f"{-(-blocks_there // parts)} and {blocks_there // parts}.",
    )):  # fmt: skip
        p.text(0, y + 62 + 20 * line, words, *SMALL)
    return p


def part_of(
    blocks: Sequence[Sequence[float]], values: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """The mean of values weighted by exp(score), and the log of these weights' sum."""
    scores, of = list(itertools.chain(*blocks)), list(itertools.chain(*values))
    m = max(scores)
    total = sum(math.exp(score - m) for score in scores)
    mean = sum(math.exp(s - m) * v for s, v in zip(scores, of, strict=True)) / total
    return mean, m + math.log(total)


PICTURES = (pages, ragged, splits)

if __name__ == "__main__":
    sys.exit(main("6_serving", PICTURES))
