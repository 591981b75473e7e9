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
