"""List the tile of each visit, by searching a running sum.

Goal
    Write m_tile_ids: repeat each tile's number as often as the tile is visited, in
    T + G - 1 entries. The entries after the last visit hold the last tile's number.
    jnp.repeat would work again; use a method that also works for a single visit.

Concept
    group_ids lists the group of each visit, m_tile_ids its tile:

        tile_visits  = [2, 1, 2, 1, 1]                T = 5, G = 5

        v              0    1    2    3    4    5    6   |  7    8
        group_ids      0    1    1    1    3    3    4   |  4    4
        m_tile_ids     0    0    1    2    2    3    4   |  4    4
        tile of x     copy  -   copy copy  -   copy copy
        of the result  .   out  out   .   out  out  out

    group_ids is made from row sums, m_tile_ids from column sums. Why do they match?
    From one mark to the next, the staircase goes right, down, or both, never back. So
    its marks have the same order by rows as by columns, and both lists are sorted.

    The index maps of x and of the result read this table. No visit returns to a
    tile that was left (see revisit_bug), so two groups can write to one tile.

    jnp.repeat works forward: this many entries for the first tile, then that
    many for the next. You can also ask the question backward, for one entry:
    which tile does visit v belong to? The running sum of the visits says where
    the visits of each tile end,

        tile                0     1     2     3     4
        visits of it        2     1     2     1     1
        ends before v =     2     3     5     6     7

    and the tile of visit v is the first one whose end is greater than v.
    Finding it in a sorted list of T ends takes about log2(T) comparisons:
    `jnp.searchsorted(ends, v)`, for one v or for many at once. It returns the
    number of elements a that come before v. Its argument `side` decides ties:

        side="left"      counts those with a < v
        side="right"     counts those with a <= v

    Use v = 2 to find out which one you need. A visit after the last one is beyond all
    ends. It gets the number T, which isn't a tile.

    A search doesn't need the other entries: an index map could search the ends itself,
    with log2(T) loads at each step. If the table fits into SMEM, one load is better.

Shapes
    name          dtype[dims]   memory space   Ref's shape   block
    tile_visits   int32[T]      HBM            -             -
    result        int32[V]      HBM            -             -

    V = T + G - 1. G, the number of groups, is a Python int.

Try
    pytest -k m_tile_ids          stuck?  kata hint m_tile_ids

Needs     tile_visits, group_ids, revisit_bug
Read on   searchsorted, https://docs.jax.dev/en/latest/_autosummary/jax.numpy.searchsorted.html
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def m_tile_ids_spec(tile_visits: Int32[Array, "T"], *, G: int) -> Int32[Array, "V"]:
    """What to return, computed like group_ids."""
    T = len(tile_visits)
    return jnp.repeat(jnp.arange(T, dtype=jnp.int32), tile_visits, total_repeat_length=T + G - 1)


def m_tile_ids(tile_visits: Int32[Array, "T"], *, G: int) -> Int32[Array, "V"]:
    """Return the tile of each visit, with room for the largest possible number of visits."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return the tile of each visit: T + G - 1 entries, padded with the last tile"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def m_tile_ids_inputs(key, *, G, M, tm, pattern, dtype):
    """Visits to each tile by G groups. `pattern` says where the cuts between the groups are."""
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
    return (jnp.sum(jnp.array(touches), axis=0, dtype=jnp.int32),)


def test_m_tile_ids(hidden_case):
    hidden_case.grade(m_tile_ids)
