"""List the group of each visit, in an array of fixed length.

Goal
    Write group_ids: repeat each group's number once for every tile that the
    group touches, in the order of the groups. The array always has
    M / tm + G - 1 entries, even if there are fewer visits. The entries after
    the last visit hold the number of the last group.

Concept
    One grid axis of the kernel will count visits, v = 0, 1, 2, .... At each visit, the
    index map of the weights needs the visit's group. It reads the group from a table,
    which lists the staircase of tiles_per_group row by row:

        tiles_per_group = [1, 3, 0, 2, 1]             M = 20, tm = 4, G = 5

        group           0    1    1    1    3    3    4   |  4    4
        v               0    1    2    3    4    5    6   |  7    8
                       [-- 7 visits, one for each mark --] [ unused ]
        w[group]       copy copy  -    -   copy  -   copy

    The visits of a group follow each other, so its block of w is copied once.
    How long is the table? Here the numbers of tiles add up to 7; with other
    group sizes they add up to something else. But a program is compiled for
    arrays of fixed shapes, and the sizes aren't known until it runs: under jit,
    no shape can depend on a value. So find the largest number of visits that
    can occur, and always make room for that many:

        tiles                0         1         2         3         4
        no cut inside    |    0    |    1    |    2    |    3    |    4    |
                              5 visits: each tile is visited at least once

        four cuts inside |  0 : 1  |    1    | 1 : 2 : 3 : 4  |    ...
                              each cut adds one visit, wherever it is

    G groups have G - 1 cuts between them. A cut inside a tile adds one visit. A cut on
    the edge of a tile adds none. Neither does a second cut in the same place, since
    the group between the two cuts is empty. So there are at most M / tm + G - 1
    visits; the maximum occurs if all groups have rows and each cut is inside a tile.
    At most G - 1 words of SMEM are unused.

    `jnp.repeat(a, repeats)` writes a[0] repeats[0] times, then a[1] repeats[1]
    times, and so on. Its argument total_repeat_length fixes the length of the
    result under jit: a result that is too long is cut off, and one that is too
    short is padded with the last element of a. masked_store (08) visits this
    padding too, which does no harm, since it holds legal block indices.

Shapes
    name              dtype[dims]   memory space   Ref's shape   block
    tiles_per_group   int32[G]      HBM            -             -
    result            int32[V]      HBM            -             -

    V = M / tm + G - 1. M and tm are Python ints. Empty groups have 0 tiles.

Try
    pytest -k group_ids          stuck?  kata hint group_ids

Needs     tiles_per_group
Read on   jax.numpy.repeat, https://docs.jax.dev/en/latest/_autosummary/jax.numpy.repeat.html
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def group_ids_spec(tiles_per_group: Int32[Array, "G"], *, M: int, tm: int) -> Int32[Array, "V"]:
    """What to return, computed the long way: how many groups are done before visit v?"""
    G = len(tiles_per_group)
    visit = jnp.arange(M // tm + G - 1)[:, None]
    done = jnp.cumsum(tiles_per_group)[None, :] <= visit
    return jnp.minimum(jnp.sum(done, axis=1), G - 1).astype(jnp.int32)


def group_ids(tiles_per_group: Int32[Array, "G"], *, M: int, tm: int) -> Int32[Array, "V"]:
    """Return the group of each visit, with room for the largest possible number of visits."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return the group of each visit: M // tm + G - 1 entries, padded with the last group"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def group_ids_inputs(key, *, G, M, tm, pattern, dtype):
    """Numbers of tiles of G groups. `pattern` says where the cuts between the groups are."""
    cuts = sorted(jax.random.randint(key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, *cuts, M],  # anywhere
        1: [0, *(cut // tm * tm for cut in cuts), M],  # on the edges of tiles
        2: [0, *sorted(M // tm // 2 * tm + cut % tm for cut in cuts), M],  # all within one tile
        # inside tiles; the first group, one in the middle, and the last are empty
        3: [0, 0, *odd[1 : G // 2], *odd[G // 2 - 1 : -2], M, M],
        4: [0 if g <= sum(cuts) % G else M for g in range(G)] + [M],  # one group has all rows
    }[pattern]
    touches = [
        [max(offsets[g], t) < min(offsets[g + 1], t + tm) for t in range(0, M, tm)]
        for g in range(G)
    ]
    return (jnp.sum(jnp.array(touches), axis=1, dtype=jnp.int32),)


def test_group_ids(hidden_case):
    hidden_case.grade(group_ids)
