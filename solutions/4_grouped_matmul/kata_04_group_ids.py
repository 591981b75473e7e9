"""List the group of each visit, in an array whose length nobody knows in advance.

Goal
    Write group_ids: each group's number as often as it touches tiles, in the
    order of the groups. The array has M / tm + G - 1 entries, whether there are
    as many visits or fewer; behind the last visit it names the last group.

Concept
    One grid axis of the kernel will count visits, v = 0, 1, 2, ..., and the
    index map of the weights will ask at each: whose turn is it? The answer is a
    table, which lists the staircase of tiles_per_group row by row:

        tiles_per_group = [1, 3, 0, 2, 1]             M = 20, tm = 4, G = 5

        group           0    1    1    1    3    3    4   |  4    4
        v               0    1    2    3    4    5    6   |  7    8
                       [-- 7 visits, one for each mark --] [ unused ]

    How long is it? The numbers of tiles add up to 7 here, and with other sizes
    to something else. But a program is compiled for arrays of fixed shapes,
    and the sizes are not known until it runs: under jit, no shape may depend on
    a value. So find the largest number of visits that can occur, and always
    make room for that many:

        tiles                0         1         2         3         4
        no cut inside    |    0    |    1    |    2    |    3    |    4    |
                              5 visits: each tile is visited at least once

        four cuts inside |  0 : 1  |    1    | 1 : 2 : 3 : 4  |    ...
                              each cut adds one visit, wherever it is

    G groups have G - 1 cuts between them. A cut inside of a tile adds a visit.
    One on an edge adds none, nor does a second cut in the same place, with an
    empty group between the two. So M / tm + G - 1 visits are the most, reached
    only where all groups have rows and each cut is inside of a tile.
    The waste is small: at most G - 1 unused words of 4 bytes in SMEM.

    `jnp.repeat(a, repeats)` writes a[0] as often as repeats[0] says, then a[1],
    and so on. Its argument total_repeat_length fixes the length of the result
    under jit: what is too long is cut off, and what is too short is filled up
    with the last element of a. No visit of the kernel will read that filling,
    but its values are legal block indices, so nothing breaks if one does.

Shapes
    name               dtype[dims]
    tiles_per_group    int32[G]        0 for empty groups
    M, tm              Python ints     rows in all, rows of a tile
    result             int32[V]        V = M / tm + G - 1

Try
    pytest -k group_ids          stuck?  kata hint group_ids
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def group_ids_spec(tiles_per_group: Int32[Array, "G"], *, M: int, tm: int) -> Int32[Array, "V"]:
    """What must come back, said the long way: in visit v, how many groups have had theirs?"""
    G = len(tiles_per_group)
    visit = jnp.arange(M // tm + G - 1)[:, None]
    done = jnp.cumsum(tiles_per_group)[None, :] <= visit
    return jnp.minimum(jnp.sum(done, axis=1), G - 1).astype(jnp.int32)


def group_ids_inputs(key, *, G, M, tm, pattern, dtype):
    """The tiles of G groups. The pattern says where the cuts between them are."""
    cuts = sorted(jax.random.randint(key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, *cuts, M],  # anywhere
        1: [0, *(cut // tm * tm for cut in cuts), M],  # on the edges of tiles
        2: [0, *sorted(M // tm // 2 * tm + cut % tm for cut in cuts), M],  # all within one tile
        # inside of tiles, with empty groups: the first, one in the middle, the last
        3: [0, 0, *odd[1 : G // 2], *odd[G // 2 - 1 : -2], M, M],
        4: [0 if g <= sum(cuts) % G else M for g in range(G)] + [M],  # one group has all rows
    }[pattern]
    touches = [
        [max(offsets[g], t) < min(offsets[g + 1], t + tm) for t in range(0, M, tm)]
        for g in range(G)
    ]
    return (jnp.sum(jnp.array(touches), axis=1, dtype=jnp.int32),)


def group_ids(tiles_per_group: Int32[Array, "G"], *, M: int, tm: int) -> Int32[Array, "V"]:
    """The group of each visit, with room for as many visits as there can be."""
    # BEGIN SOLUTION
    G = len(tiles_per_group)
    groups = jnp.arange(G, dtype=jnp.int32)
    return jnp.repeat(groups, tiles_per_group, total_repeat_length=M // tm + G - 1)
    # END SOLUTION


def test_group_ids(hidden_case):
    hidden_case.grade(group_ids)
