"""Count the tiles that each group of rows touches.

Goal
    For each group, count the tiles of tm rows in which it has rows. The groups are
    given by their sizes and offsets. M is a multiple of tm.

Concept
    The kernel will copy x in tiles of tm rows. Groups ignore the tiles: they
    begin and end anywhere. A tile that holds rows of two groups is multiplied
    twice, once by the weights of each group. So work is counted in *visits*:
    one for each pair of a group and a tile in which the group has rows. With
    M = 20 and tm = 4:

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

    The marks go down and to the right, like a staircase. This kata counts them row
    by row, tile_visits column by column. The kernel's tables list all marks.

    The size of a group doesn't determine how many tiles it touches. Group 1 has 6
    rows, which would fit in two tiles, but touches three; group 3 is longer and
    touches two. Look at where a group's first tile begins and where its last tile
    ends.

    The kernel never reads these counts. Their sum is the number of grid steps, and
    group_ids uses them. If group 1's count were 2, no step would store its last row:

        visits of group 1     tile 0   tile 1    -       row 8: what was in memory

    Check two cases. A group that ends on the edge of a tile has no rows in the tile
    after it. An empty group touches no tile, even if its offset is inside one.

    In integer arithmetic, a // tm rounds down; no a is negative here. To round
    up, write (a + tm - 1) // tm. The operator / returns a float32, whose 24
    bits of precision can't distinguish all rows beyond 16.8 million.

Shapes
    name            dtype[dims]    memory space   Ref's shape   block
    group_sizes     int32[G]       HBM            -             -
    group_offsets   int32[G + 1]   HBM            -             -
    result          int32[G]       HBM            -             -

    tm, the rows of a tile, is a Python int.

Try
    pytest -k tiles_per_group          stuck?  kata hint tiles_per_group

Needs     group_offsets
Read on   MegaBlocks, https://arxiv.org/abs/2211.15841
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def tiles_per_group_spec(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, M: int, tm: int
) -> Int32[Array, "G"]:
    """What to return, computed the long way: draw the staircase, count the marks in each row."""
    starts, ends = group_offsets[:-1, None], group_offsets[1:, None]
    tile = jnp.arange(M // tm)[None, :]
    touches = jnp.maximum(starts, tile * tm) < jnp.minimum(ends, (tile + 1) * tm)
    return jnp.sum(touches, axis=1, dtype=jnp.int32)


def tiles_per_group(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, tm: int
) -> Int32[Array, "G"]:
    """Return, for each group, the number of tiles of tm rows in which it has rows."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return, for each group, the number of tiles of tm rows in which it has rows; 0 for an empty group"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def tiles_per_group_inputs(key, *, G, M, tm, pattern, dtype):
    """Sizes and offsets of G groups. `pattern` says where the cuts between them are."""
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
    group_offsets = jnp.array(offsets, jnp.int32)
    return jnp.diff(group_offsets), group_offsets


def test_tiles_per_group(hidden_case):
    hidden_case.grade(tiles_per_group)
