"""List the tile of each visit, by searching in a running sum.

Goal
    Write m_tile_ids: each tile's number as often as it is visited, in order.
    The array has T + G - 1 entries; behind the last visit it names the last
    tile. jnp.repeat would do it again. Try to do without: it is two lines.

Concept
    With this table the staircase is complete. group_ids lists the group of each
    visit, m_tile_ids its tile, and a visit reads both at the same place:

        tile_visits  = [2, 1, 2, 1, 1]                T = 5, G = 5

        v              0    1    2    3    4    5    6   |  7    8
        group_ids      0    1    1    1    3    3    4   |  4    4
        m_tile_ids     0    0    1    2    2    3    4   |  4    4

    One was made from the sums of rows, the other from those of columns, and
    neither knows of the other. Why do they fit? From mark to mark, a staircase
    goes to the right or down, never back. Read by rows or by columns, its marks
    come in the same order, in which groups never fall and tiles never fall. So
    each list may be made by sorting alone, and the v-th entries belong together.

    That no tile is come back to, once left, is worth more than it seems: the
    result's block must not be revisited (kata revisit_bug), and this order is
    the reason why two groups may write to one tile.

    jnp.repeat looks ahead: so many of these, then so many of those. The same
    question can be put backwards, to one entry alone: which tile is visit v
    about? Adding up the visits tells where those of each tile end,

        tile                0     1     2     3     4
        visits of it        2     1     2     1     1
        ends before v =     2     3     5     6     7

    and the tile is the first one whose end is beyond v. In a sorted list of
    T ends that takes about log2(T) comparisons: `jnp.searchsorted(ends, v)`, for
    one v or for all of them at once. Its argument side decides about ties. It
    returns the number of elements a that go before v in the list:

        side="left"      those with a < v
        side="right"     those with a <= v

    Which of them is wanted, v = 2 will tell. A visit behind the last one is
    beyond all ends, and gets the number T, which is no tile.

    A search needs no other entry, and no array to write to. Where a table is
    too large to be made, or where only a few of its entries are asked for, one
    searches in the running sum instead of repeating.

Shapes
    name           dtype[dims]
    tile_visits    int32[T]        each at least 1
    G              a Python int    groups
    result         int32[V]        V = T + G - 1

Try
    pytest -k m_tile_ids          stuck?  kata hint m_tile_ids
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def m_tile_ids_spec(tile_visits: Int32[Array, "T"], *, G: int) -> Int32[Array, "V"]:
    """What must come back, said in the words of group_ids."""
    T = len(tile_visits)
    return jnp.repeat(jnp.arange(T, dtype=jnp.int32), tile_visits, total_repeat_length=T + G - 1)


def m_tile_ids_inputs(key, *, G, M, tm, pattern, dtype):
    """The visits of all tiles by G groups. The pattern says where the cuts between them are."""
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
    return (jnp.sum(jnp.array(touches), axis=0, dtype=jnp.int32),)


def m_tile_ids(tile_visits: Int32[Array, "T"], *, G: int) -> Int32[Array, "V"]:
    """The tile of each visit, with room for as many visits as there can be."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return the tile of each visit: T + G - 1 entries, filled up with the last tile"
    )
    # END SOLUTION


def test_m_tile_ids(hidden_case):
    hidden_case.grade(m_tile_ids)
