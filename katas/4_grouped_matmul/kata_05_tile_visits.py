"""Count how often each tile is visited.

Goal
    Write tile_visits: for each tile of tm rows, count the groups that have rows
    in it. The groups are given by their sizes and offsets, as in
    tiles_per_group, and M is a multiple of tm.

Concept
    This is the same staircase, counted column by column: how often is each tile of x,
    and of the result, visited? The kernel keeps a tile of the result in VMEM for all
    its visits. The tile is copied to HBM once, after its last visit:

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
        to HBM after visit    1         2         4         5         6

    Drawing the whole staircase takes G * M / tm marks: 16,384 for 64 experts
    and 256 tiles. But all that matters is where the groups begin. The first row
    of a tile belongs to some group, because the groups leave no gaps: that is
    one visit. Each group that begins after that row adds one more visit. A
    group that begins exactly on the edge is the tile's first visit and must not
    be counted again. An empty group isn't counted at all.

    The rest is a histogram: how many of these groups begin in tile 0, how many in tile
    1, and so on? `jnp.bincount(i, length=T)` counts how often each number from 0 to
    T - 1 occurs in i: for each number in i, it adds 1 to the counter at that place.
    Without length, the shape would depend on values.

    Under jit, you can't remove groups from i either: the list would become shorter by
    an unknown amount. So i keeps its G entries. The usual trick for lists of unknown
    length is to send the entries that you don't want to a place that doesn't exist.
    JAX ignores an update past the end of an array, here as in x.at[i].add(1). (It
    doesn't ignore an update before the beginning: in x.at[i], -1 is the last element,
    and bincount treats it as 0.)

Shapes
    name            dtype[dims]    memory space   Ref's shape   block
    group_sizes     int32[G]       HBM            -             -
    group_offsets   int32[G + 1]   HBM            -             -
    result          int32[T]       HBM            -             -

    T = M / tm. M and tm are Python ints. Each tile has at least 1 visit.

Try
    pytest -k tile_visits          stuck?  kata hint tile_visits

Needs     tiles_per_group
Read on   jax.numpy.bincount, https://docs.jax.dev/en/latest/_autosummary/jax.numpy.bincount.html
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def tile_visits_spec(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, M: int, tm: int
) -> Int32[Array, "T"]:
    """What to return, computed the long way: draw the staircase, count each column's marks."""
    starts, ends = group_offsets[:-1, None], group_offsets[1:, None]
    tile = jnp.arange(M // tm)[None, :]
    touches = jnp.maximum(starts, tile * tm) < jnp.minimum(ends, (tile + 1) * tm)
    return jnp.sum(touches, axis=0, dtype=jnp.int32)


def tile_visits(
    group_sizes: Int32[Array, "G"], group_offsets: Int32[Array, "G+1"], *, M: int, tm: int
) -> Int32[Array, "T"]:
    """Return the number of groups that have rows in each tile."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return, for each of the M // tm tiles, the number of groups that have rows in it"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def tile_visits_inputs(key, *, G, M, tm, pattern, dtype):
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


def test_tile_visits(hidden_case):
    hidden_case.grade(tile_visits)
