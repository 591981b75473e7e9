"""Right kernels of tune_blocks in other styles: see docs/authoring.md."""

# ---- fewest_steps ----

"""The fewest steps, and of equally many those that read least: no time is computed.

Stars: 3
"""


def blocks(M, N, K, itemsize):
    def multiples(size):
        return [b for b in range(128, size + 1, 128) if size % b == 0] or [size]

    def order(block):
        bm, bn, bk = block
        steps = (M // bm) * (N // bn) * (K // bk)
        return steps, M * K * (N // bn) + K * N * (M // bm)

    found = []
    for bm in multiples(M):
        for bn in multiples(N):
            for bk in multiples(K):
                room = 2 * itemsize * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn
                if room <= 10 * 2**20:
                    found.append((bm, bn, bk))
    return min(found, key=order)


# ---- itertools ----

"""Candidates from itertools, and times in ns: a step's own comes on top of the longer of two.

Stars: 3
"""

import itertools


def blocks(M, N, K, itemsize):
    candidates = [[b for b in range(128, s + 1, 128) if not s % b] or [s] for s in (M, N, K)]
    best, least = (0, 0, 0), float("inf")
    for bm, bn, bk in itertools.product(*candidates):
        if 2 * itemsize * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn > 11_000_000:
            continue
        moved = M * K * (N / bn) + K * N * (1 if bk == K else M / bm) + M * N
        took = max(moved * itemsize / 819, M * N * K / 98_500 + M * N * (K / bk) / 1536)
        took += 200 * (M / bm) * (N / bn) * (K / bk)
        if took < least:
            best, least = (bm, bn, bk), took
    return best
