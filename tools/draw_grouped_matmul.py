"""Draw the pictures of 4_grouped_matmul: `python tools/draw_grouped_matmul.py`, or --check."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

from draw_attention import tables
from drawing import BOLD, SMALL, WIDTH, Picture, main, moves

# The two experts of each token. Their groups are the example of katas 02 to 07, which have 20 rows
# in tiles of 4.
CHOICES = ((3, 1), (1, 4), (3, 0), (1, 3), (3, 4), (0, 1), (3, 1), (4, 3), (1, 0), (3, 4))
CHOSEN = list(itertools.chain(*CHOICES))
G, TM = 5, 4
SIZES = [CHOSEN.count(g) for g in range(G)]
OFFSETS = list(itertools.accumulate(SIZES, initial=0))
M = OFFSETS[-1]
LEFT = 76  # where the columns of visits begin
LOOKS = ("blue", "gold", "bare", "green", "red")  # of the groups; nobody chose the third


def owns(g: int, row: int) -> bool:
    return OFFSETS[g] <= row < OFFSETS[g + 1]


def visits(empty_too: bool = False) -> list[tuple[int, int]]:
    """Group and tile of each visit, in order; an empty group's tile is the one it begins in."""
    found: list[tuple[int, int]] = []
    for g, (start, end) in enumerate(itertools.pairwise(OFFSETS)):
        if start < end:
            found += [(g, tile) for tile in range(start // TM, -(-end // TM))]
        elif empty_too:
            found.append((g, min(start, M - 1) // TM))
    return found


# ---- the pictures ----


def routing() -> Picture:
    """Tokens, the experts that they chose, and the rows sorted by expert."""
    each, shown = len(CHOICES[0]), 4  # the token that is followed
    order = sorted(range(M), key=lambda n: CHOSEN[n])
    p = Picture(
        "routing",
        "Rows sorted by the expert that they go to",
        f"{len(CHOICES)} tokens choose {each} of {G} experts each. Sorted by expert, their {M} "
        f"rows form groups of {', '.join(map(str, SIZES))} rows, each multiplied by the weights "
        f"of its expert. Token {shown} is in groups {' and '.join(map(str, CHOICES[shown]))}; "
        "its result is the weighted sum of two rows.",
        382,
    )
    left, unit = 70, (WIDTH - 72) / M
    p.text(0, 16, f"{len(CHOICES)} tokens choose {each} of {G} experts", *BOLD, size=15)
    labels = ("token", "expert", "row", "token", "weights", "rows out")
    for y, label in zip((42, 68, 176, 202, 257, 308), labels, strict=True):
        p.text(0, y, label, at="start")
    for n, expert in enumerate(CHOSEN):
        p.box(left + n * unit, 52, unit, 24, LOOKS[expert], str(expert), size=12)
    for token in range(len(CHOICES)):
        x = left + each * token * unit
        bold = " bold" * (token == shown)
        p.text(x + each * unit / 2, 42, str(token), "ink halo" + bold)
        p.line((x, 48), (x, 80), "thick")
    p.line((left + M * unit, 48), (left + M * unit, 80), "thick")
    for g, (start, end) in enumerate(itertools.pairwise(OFFSETS)):
        if start < end:
            x, w = left + start * unit, (end - start) * unit
            p.arrow((x + w / 2, 214), (x + w / 2, 236))
            p.box(x + 1, 240, w - 2, 26, LOOKS[g], f"@ w[{g}]", size=12)
            p.arrow((x + w / 2, 269), (x + w / 2, 289))
    ends = iter((11.5, 13.5))
    for row, n in enumerate(order):
        x, token, look = left + row * unit, n // each, LOOKS[CHOSEN[n]]
        followed = token == shown
        p.text(x + unit / 2, 176, str(row), "soft halo", size=12)
        p.box(x, 186, unit, 24, look, str(token), size=12)
        p.box(x, 292, unit, 24, look if followed else "bare")
        if followed:
            p.arrow((left + (n + 0.5) * unit, 82), (x + unit / 2, 162))
            p.arrow((x + unit / 2, 318), (left + next(ends) * unit, 345))
    p.box(left + 8 * unit, 348, 9 * unit, 26, "grey", f"token {shown}: weighted sum", size=12)
    return p


def staircase() -> Picture:
    """Groups over tiles, the visits in order, and the tables that list them."""
    listed, tiles = visits(), M // TM
    room = tiles + G - 1
    p = Picture(
        "visits",
        "Groups, tiles, and a visit for each pair that shares rows",
        f"{M} rows in tiles of {TM}, with groups of {', '.join(map(str, SIZES))} rows over "
        f"them. {len(listed)} pairs of a group and a tile share rows and form a staircase. "
        f"group_ids and m_tile_ids list the pairs in order, and have room for {room} visits.",
        378,
    )
    left, unit, top, high = 110, (WIDTH - 112) / M, 60, 34
    p.text(0, 43, "row", at="start")
    p.text(0, 16, f"M = {M} rows, tm = {TM}", *BOLD, size=15)
    for g, size in enumerate(SIZES):
        p.text(0, top + g * high + 22, f"group {g}: {size} rows", at="start")
        p.line((left, top + g * high), (left + M * unit, top + g * high), "dash")
        for row in range(OFFSETS[g], OFFSETS[g + 1]):
            p.box(left + row * unit, 26, unit, 24, LOOKS[g], str(row), size=11)
    for tile in range(tiles + 1):
        x = left + tile * TM * unit
        p.line((x, 22), (x, top + G * high), "thick")
        if tile < tiles:
            p.text(x + TM * unit / 2, top + G * high + 16, f"tile {tile}", "soft halo")
    for v, (g, tile) in enumerate(listed):
        first, last = max(OFFSETS[g], tile * TM), min(OFFSETS[g + 1], (tile + 1) * TM)
        x, w = left + first * unit, (last - first) * unit
        p.box(x, top + g * high + 5, w, high - 10, LOOKS[g], str(v))
    wide, below = (WIDTH - 112) / room, top + G * high + 48
    unused = [(G - 1, tiles - 1)] * (room - len(listed))
    for n, label in enumerate(("visit", "group_ids", "m_tile_ids")):
        p.text(0, below + 30 * n, label, "ink halo" + " code" * (n > 0), "start")
    for v, entry in enumerate(listed + unused):
        x, used = left + v * wide, v < len(listed)
        p.text(x + wide / 2, below, str(v), "ink halo bold" if used else "soft halo")
        for n, number in enumerate(entry):
            look = LOOKS[entry[0]] if used else "grey"
            p.box(x, below + 12 + 30 * n, wide, 26, look, str(number))
    words = f"num_visits = {len(listed)}; room for M / tm + G - 1 = {room}, gray is never visited"
    p.text(WIDTH / 2, below + 92, words, "soft halo")
    return p


def shared_tile() -> Picture:
    """The visits of a grouped matmul in time: what is copied, and what the output block holds."""
    listed = visits()
    x_moves, w_moves = (moves(visit[n] for visit in listed) for n in (1, 0))
    p = Picture(
        "masked_store",
        "Several visits store to a tile that several groups share",
        f"{len(listed)} visits in time. A tile of x is copied when its number changes, {x_moves} "
        f"times. A group's weights are copied when the group changes, {w_moves} times. Each visit "
        "stores the rows of its own group into the output block and leaves the other rows "
        "unchanged. When the next visit has another tile, the block is copied to HBM.",
        310,
    )
    cell, top = 22, 150
    for y, label, look in ((88, "x", " code"), (120, "w", " code"), (196, "o after", "")):
        p.text(0, y, label, "ink halo" + look, "start")
    p.text(0, 214, "the visit", at="start")
    wrote: list[int] = []  # the groups that have stored into this tile
    for v, ((g, tile), x, wide) in enumerate(_columns(p, listed)):
        if v == 0 or listed[v - 1][1] != tile:
            wrote = []
            p.box(x + 3, 70, wide - 6, 26, "grey", f"tile {tile}", size=12)
        if v == 0 or listed[v - 1][0] != g:
            p.box(x + 3, 102, wide - 6, 26, LOOKS[g], f"w[{g}]", size=12)
        wrote.append(g)
        for y, row in zip(itertools.count(top, cell), range(tile * TM, (tile + 1) * TM)):
            owner = [h for h in wrote if owns(h, row)]
            look, words = (LOOKS[owner[0]], str(row)) if owner else ("bare", "?")
            p.box(x + 10, y, wide - 20, cell, look, words, size=12)
            if owns(g, row):
                p.line((x + 6, y + 2), (x + 6, y + cell - 2), "thick")
        if v + 1 == len(listed) or listed[v + 1][1] != tile:
            y, middle = top + TM * cell, x + wide / 2
            p.arrow((middle, y + 2), (middle, y + 24))
            p.text(middle, y + 38, "to HBM", "soft halo", size=12)
    p.text(LEFT, 302, "bar: rows that this visit stores; ?: not written yet", *SMALL)
    return p


def gradient() -> Picture:
    """The transposed grouped matmul's visits in time: a sum per group, zeros for an empty one."""
    listed = visits(empty_too=True)
    p = Picture(
        "gradient",
        "A sum for each group, and zeros for an empty group",
        f"{len(listed)} visits in time, one of them for the empty group. Each visit adds the "
        "product of its group's rows of x, transposed, and dy to a sum. When the group changes, "
        "the sum is complete and is copied to HBM as that group's dw.",
        332,
    )
    cell, top, base = 22, 68, 246
    for y, label, look in (
        (96, "rows of", ""),
        (base - 10, "acc", " code"),
        (base + 30, "dw", " code"),
    ):
        p.text(0, y, label, "ink halo" + look, "start")
    p.text(0, 114, "x and dy", at="start")
    first = summed = 0
    for v, ((g, tile), x, wide) in enumerate(_columns(p, listed)):
        if v and listed[v - 1][0] != g:
            first, summed = v, 0
        for y, row in zip(itertools.count(top, cell), range(tile * TM, (tile + 1) * TM)):
            look, words = (LOOKS[g], str(row)) if owns(g, row) else ("bare", "")
            p.box(x + 8, y, wide - 16, cell, look, words, size=12)
            summed += owns(g, row)
        p.box(x + 8, base - 7 * summed, wide - 16, 7 * summed, LOOKS[g])
        p.text(x + wide / 2, base - 7 * summed - 5, str(summed), "ink halo", size=12)
        if v + 1 == len(listed) or listed[v + 1][0] != g:
            w, words = (v + 1 - first) * wide, f"dw[{g}]" if summed else "zeros"
            p.box(x + wide - w + 2, base + 12, w - 4, 26, LOOKS[g], words, size=12)
            p.arrow((x + wide / 2, base + 40), (x + wide / 2, base + 60))
    p.text(LEFT, base + 78, "number: rows summed so far; blank: masked; arrow: to HBM", *SMALL)
    return p


def _columns(
    p: Picture, listed: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], float, float]]:
    """Head a column for each visit; yields the visit, and where its column begins and how wide."""
    wide = (WIDTH - LEFT - 2) / len(listed)
    for y, label in ((14, "visit"), (34, "group"), (54, "tile")):
        p.text(0, y, label, at="start")
    for v, (g, tile) in enumerate(listed):
        x = LEFT + v * wide
        p.text(x + wide / 2, 14, str(v), "ink halo bold")
        p.text(x + wide / 2, 34, str(g))
        p.text(x + wide / 2, 54, str(tile))
        yield (g, tile), x, wide


def layer() -> Picture:
    """A mixture-of-experts layer: the rows on the left, what controls them on the right."""
    tokens, each, experts, d, f = 4096, 2, 8, 2048, 2048
    rows = each * tokens
    p = Picture(
        "layer",
        "A mixture-of-experts layer, from tokens to tokens",
        "Two columns. On the left, the rows: tokens, sorted by expert, through the kernels gate_up "
        "and down, back in token order, summed. On the right, what controls them: logits, top_k, "
        "the order and the group sizes, tables of visits. The tables go into both kernels, the "
        "order into the sort and its inverse, the weights into the sum.",
        410,
    )
    wide, left, pitch, high = 206, 254, 60, 40
    middle = [4 + row * pitch + high / 2 for row in range(7)]
    boxes = (
        (1, 0, "tokens", f"{tokens} × {d}", "bare"),
        (1, 2, "sorted by expert", f"{rows} × {d}", "bare"),
        (1, 3, "kernel gate_up", f"{rows} × {f}", "gold"),
        (1, 4, "kernel down", f"{rows} × {d}", "gold"),
        (1, 5, "back in token order", f"{rows} × {d}", "bare"),
        (1, 6, "weighted sum", f"{tokens} × {d}", "bare"),
        (left, 0, "the router's logits", f"{tokens} × {experts}", "blue"),
        (left, 1, "top_k: experts, weights", f"{tokens} × {each}", "blue"),
        (left, 2, "order, group_sizes", f"{rows}; {experts}", "blue"),
        (left, 3, "group_metadata", "tables of visits", "blue"),
    )
    for x, row, name, shape, look in boxes:
        ink = "ink halo" if look == "bare" else "ink"
        p.box(x, middle[row] - high / 2, wide, high, look)
        p.text(x + wide / 2, middle[row] - 3, name, ink)
        p.text(x + wide / 2, middle[row] + 13, shape, ink, size=12)
        if row:
            above = row - 2 if (x, row) == (1, 2) else row - 1
            start, end = middle[above] + high / 2, middle[row] - high / 2
            p.arrow((x + wide / 2, start), (x + wide / 2, end - 2))
    p.arrow((wide + 2, middle[0]), (left - 2, middle[0]))
    for row in (2, 3):
        p.arrow((left - 2, middle[row]), (wide + 3, middle[row]))
    below, right = (left + wide / 2, middle[3] + high / 2), left + wide
    for row, x, begin, words in (
        (4, below[0], below, "the same tables"),
        (5, right + 7, (right, middle[2]), "the inverse order"),
        (6, right + 16, (right, middle[1]), "the weights"),
    ):
        p.line(begin, (x, begin[1]))
        p.line((x, begin[1]), (x, middle[row]))
        p.arrow((x, middle[row]), (wide + 3, middle[row]))
        p.text(left, middle[row] - 7, words, *SMALL)
    return p


def one_algorithm() -> Picture:
    """The visits of splash attention and of a grouped matmul, in the same form."""
    size, block, window = 16, 4, 8  # the mask of 3_attention/pictures/splash.svg
    seen = [[0 <= query - key < window for key in range(size)] for query in range(size)]
    kinds, columns, _ = tables(seen, block, block)
    splash = [
        (i, j, kind == 2)
        for i, (row, of_row) in enumerate(zip(columns, kinds, strict=True))
        for j, kind in zip(row, of_row, strict=True)
        if kind
    ]
    grouped = [
        (tile, g, owns(g, tile * TM) and owns(g, tile * TM + TM - 1)) for g, tile in visits()
    ]
    panels = (
        ("splash attention", splash, size // block, ("q block", "k block"),
         ("row: a block of q and o", "column: a block of k and v", "gold: mask scores",
          "a row's visits add to one sum")),
        ("grouped matmul", grouped, M // TM, ("tile", "group"),
         ("row: a tile of x and o", "column: a group's weights", "gold: mask rows",
          "each visit stores its own rows")),
    )  # fmt: skip
    p = Picture(
        "one_algorithm",
        "Splash attention and the grouped matmul visit blocks that tables name",
        "Two squares in the same form. "
        + " ".join(
            f"{name}: {words[0]}, {words[1]}; {len(listed)} visits of {count * count}, in order "
            + ", ".join(f"({row}, {column})" for row, column, _ in listed)
            + f"; {sum(not full for *_, full in listed)} of them need a mask."
            for name, listed, count, _, words in panels
        ),
        374,
    )
    assert M // TM == G
    top, cell = 48, 32
    for n, (name, listed, count, labels, words) in enumerate(panels):
        left, x = 252 * n, 252 * n + 44
        p.text(left, 16, name, *BOLD, size=15)
        p.text(x, 40, f"{labels[1]} \N{RIGHTWARDS ARROW}", *SMALL)
        p.text(left, 40, f"{labels[0].split()[0]} \N{DOWNWARDS ARROW}", *SMALL)
        for row, column in itertools.product(range(count), repeat=2):
            p.box(x + column * cell, top + row * cell, cell, cell)
        for row in range(count):
            p.text(x - 8, top + (row + 0.5) * cell + 5, str(row), "soft halo", "end", 12)
        for visit, (row, column, full) in enumerate(listed):
            look = "green" if full else "gold"
            p.box(x + column * cell, top + row * cell, cell, cell, look, str(visit))
        below, wide = top + G * cell + 24, (WIDTH - 252 - 60) / len(splash)
        for line, label in enumerate(("visit", *labels)):
            y = below + 24 * line
            p.text(left, y, label, "ink halo", "start", 12)
            for visit, (row, column, full) in enumerate(listed):
                at = left + 56 + visit * wide
                if line:
                    look = "green" if full else "gold"
                    p.box(at, y - 15, wide, 22, look, str((row, column)[line - 1]), 12)
                else:
                    p.text(at + wide / 2, y - 2, str(visit), "ink halo bold", size=12)
        for line, told in enumerate(words):
            p.text(left, below + 78 + 18 * line, told, *SMALL)
    return p


PICTURES = (routing, staircase, shared_tile, gradient, layer, one_algorithm)

if __name__ == "__main__":
    sys.exit(main("4_grouped_matmul", PICTURES))
