"""Count the tiles that each group of rows touches.

Goal
    Write tiles_per_group: in how many tiles of tm rows does each group have
    rows? The groups are given by sizes and offsets. M is a multiple of tm.

Concept
    The kernel will move tiles of tm rows, a copy each. Groups don't care: they
    begin and end anywhere. If a tile holds rows of two groups it is multiplied
    twice, once by the weights of each, so work is counted in *visits*: one for
    each pair of a group and a tile in which it has rows. With M = 20, tm = 4:

        group_sizes   = [3, 6, 0, 7, 4]
        group_offsets = [0, 3, 9, 9, 16, 20]

        tile        0         1         2         3         4
        row     0         4         8         12        16        20
                | 0 0 0 1 | 1 1 1 1 | 1 3 3 3 | 3 3 3 3 | 4 4 4 4 |

        touches             tile 0    1    2    3    4    tiles_per_group
                   group 0       x    .    .    .    .          1
                         1       x    x    x    .    .          3
                         2       .    .    .    .    .          0
                         3       .    .    x    x    .          2
                         4       .    .    .    .    x          1

    The marks go down and to the right, like a staircase. This kata counts along
    its rows, and tile_visits will count along its columns; the tables for the
    kernel are nothing but a list of the marks.

    How many tiles a group touches is no matter of its size alone. Group 1 has
    6 rows, which would fit in two tiles, but they lie in three, since it begins
    and ends inside of one. Group 3 is longer and touches two. At worst, a group
    of two rows touches two tiles. So look at where a group's first tile begins
    and where its last one ends, rather than at how long it is.

    Two cases deserve a look before you are done. A group that ends at an edge
    has no rows in the tile behind that edge. And an empty group touches nothing,
    also where its offset is in the middle of a tile, as that of group 2 is.

    In integer arithmetic, a // tm rounds down for all a that occur here. To round
    up, there is (a + tm - 1) // tm. A quotient by / is a float32, whose 24 bits
    stop telling rows apart beyond 16.8 million.

Shapes
    name             dtype[dims]
    group_sizes      int32[G]        not negative, their sum is M
    group_offsets    int32[G + 1]    0 first, M last
    tm               a Python int    rows of a tile
    result           int32[G]

Try
    pytest -k tiles_per_group          stuck?  kata hint tiles_per_group
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def tiles_per_group_spec(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, M: int, tm: int
) -> Int32[Array, "G"]:
    """What must come back, said the long way: draw the staircase, count its rows' marks."""
    starts, ends = group_offsets[:-1, None], group_offsets[1:, None]
    tile = jnp.arange(M // tm)[None, :]
    touches = jnp.maximum(starts, tile * tm) < jnp.minimum(ends, (tile + 1) * tm)
    return jnp.sum(touches, axis=1, dtype=jnp.int32)


def tiles_per_group_inputs(key, *, G, M, tm, pattern, dtype):
    """Sizes and offsets of G groups. The pattern says where the cuts between them are."""
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
    group_offsets = jnp.array(offsets, jnp.int32)
    return jnp.diff(group_offsets), group_offsets


def tiles_per_group(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, tm: int
) -> Int32[Array, "G"]:
    """How many tiles of tm rows hold rows of each group."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return, for each group, the number of tiles in which it has rows; 0 for an empty one"
    )
    # END SOLUTION


def test_tiles_per_group(hidden_case):
    hidden_case.grade(tiles_per_group)
