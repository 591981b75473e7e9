"""Count how often each tile is visited.

Goal
    Write tile_visits: in each tile of tm rows, how many groups have rows? The
    groups are given by sizes and offsets, as in tiles_per_group, and M is a
    multiple of tm.

Concept
    The same staircase as before, with its marks counted along the columns. This
    is what each tile of x, and of the result, is in for:

        group_sizes   = [3, 6, 0, 7, 4]               M = 20, tm = 4
        group_offsets = [0, 3, 9, 9, 16, 20]

        row         0         4         8         12        16        20
                    | 0 0 0 1 | 1 1 1 1 | 1 3 3 3 | 3 3 3 3 | 4 4 4 4 |

        touches          tile 0         1         2         3         4
            group 0           x         .         .         .         .
                  1           x         x         x         .         .
                  2           .         .         .         .         .
                  3           .         .         x         x         .
                  4           .         .         .         .         x

        tile_visits           2         1         2         1         1

    To draw all of it would take G * M / tm marks, which grows with both: 16,384
    for 64 experts and 256 tiles. All that matters is where groups begin. The
    first row of a tile belongs to some group, since the groups leave no gap:
    one visit. Further visits are due to groups that begin behind that row, one
    for each. A group that begins just on the edge is the first visit and must
    not be counted again; one that is empty isn't counted at all.

    What remains is a histogram: how many such groups begin in tile 0, in tile
    1, and so on? `jnp.bincount(i, length=T)` counts how often each number from
    0 to T - 1 occurs in i. It adds 1 at T counters, at the places that i names.
    Without length it would make as many counters as the largest number asks
    for, and that is again a shape that depends on values.

    Under jit, groups that are not to be counted cannot be dropped from i either:
    the list would become shorter, by how much is not known, and so i keeps its
    G entries. There is another way out, and it is used wherever lists are
    uneven: send what you don't want to a place that doesn't exist. An update
    of a counter past the end of an array is ignored in JAX, here as in
    x.at[i].add(1). (Not so one before its beginning. -1 is the last, and
    bincount takes it for 0.)

Shapes
    name             dtype[dims]
    group_sizes      int32[G]        not negative, their sum is M
    group_offsets    int32[G + 1]    0 first, M last
    M, tm            Python ints     rows in all, rows of a tile
    result           int32[T]        T = M / tm, each at least 1

Try
    pytest -k tile_visits          stuck?  kata hint tile_visits
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def tile_visits_spec(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, M: int, tm: int
) -> Int32[Array, "T"]:
    """What must come back, said the long way: draw the staircase, count its columns' marks."""
    starts, ends = group_offsets[:-1, None], group_offsets[1:, None]
    tile = jnp.arange(M // tm)[None, :]
    touches = jnp.maximum(starts, tile * tm) < jnp.minimum(ends, (tile + 1) * tm)
    return jnp.sum(touches, axis=0, dtype=jnp.int32)


def tile_visits_inputs(key, *, G, M, tm, pattern, dtype):
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


def tile_visits(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, M: int, tm: int
) -> Int32[Array, "T"]:
    """How many groups have rows in each tile."""
    # BEGIN SOLUTION
    T = M // tm
    starts = group_offsets[:-1]
    counted = (group_sizes > 0) & (starts % tm != 0)
    return 1 + jnp.bincount(jnp.where(counted, starts // tm, T), length=T)
    # END SOLUTION


def test_tile_visits(hidden_case):
    hidden_case.grade(tile_visits)
