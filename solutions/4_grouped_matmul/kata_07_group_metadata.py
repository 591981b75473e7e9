"""Assemble the tables that drive a grouped matmul.

Goal
    Write group_metadata: from the sizes of G groups, compute everything that
    the kernel's launch needs, as a tuple (group_offsets, group_ids, m_tile_ids,
    num_visits). You wrote each part in the previous five katas; reuse them.

Concept
    The tables are the plan of the kernel's work. In visit v, a grouped matmul
    of x[M, K] with the weights w[G, K, N] looks up everything in them:

        group_ids[v]        which block of the weights to fetch     index map
        m_tile_ids[v]       which tile of x to fetch, and
                            which tile of the result to write       index maps
        group_offsets[g]    which rows of that tile belong to
                            the group                               body
        num_visits          how many steps there are                grid

        group_sizes    = [3, 6, 0, 7, 4]              M = 20, tm = 4

                                  .-> tiles_per_group -+-> group_ids
        group_sizes -> offsets --<                     '-> num_visits
                                  '-> tile_visits -------> m_tile_ids

        group_offsets  = [0, 3, 9, 9, 16, 20]
        group_ids      = [0, 1, 1, 1, 3, 3, 4, 4, 4]
        m_tile_ids     = [0, 0, 1, 2, 2, 3, 4, 4, 4]
        num_visits     = 7

    The lengths of the first three are known when the program is compiled: G + 1
    for the offsets and V = M / tm + G - 1 for the two lists. num_visits says
    how much of the two lists is used. It is a value, not a Python int: an int32
    scalar on the device, because everything here is traced. On a TPU, the size
    of a grid axis can be such a value. launch_masked_store will use it that
    way, and then the unused entries cost no steps.

    tiles_per_group and tile_visits have the same sum, because they count the
    same staircase by rows and by columns. Check that first when a kernel goes
    wrong: if one of the two counts an empty group, or counts a group on an edge
    twice, then all visits from there on have the wrong tile or the wrong group.

    The tables are small, and they are made only once. With 64 groups and 256 tiles
    they hold 64 + 1 offsets and twice 319 words, 2.7 KiB of SMEM. All matmuls of a
    layer that have the same groups and the same tm share the tables, including the
    one in the backward pass that computes the gradient of x.

Shapes
    name                    dtype[dims]    memory space   Ref's shape   block
    group_sizes             int32[G]       HBM            -             -
    group_offsets           int32[G + 1]   HBM            -             -
    group_ids, m_tile_ids   int32[V]       HBM            -             -
    num_visits              int32[]        HBM            -             -

    After the last visit: the last group, the last tile. M and tm are Python ints.

Try
    pytest -k group_metadata          stuck?  kata hint group_metadata

Needs     m_tile_ids
Read on   jax.lax.ragged_dot, https://docs.jax.dev/en/latest/_autosummary/jax.lax.ragged_dot.html
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def group_metadata_spec(
    group_sizes: Int32[Array, "G"], *, M: int, tm: int
) -> tuple[Int32[Array, "G+1"], Int32[Array, "V"], Int32[Array, "V"], Int32[Array, ""]]:
    """What to return, computed the long way: draw the staircase and list its marks."""
    G, T = len(group_sizes), M // tm
    earlier = jnp.arange(G)[None, :] < jnp.arange(G + 1)[:, None]
    group_offsets = jnp.sum(jnp.where(earlier, group_sizes, 0), axis=1, dtype=jnp.int32)
    starts, ends = group_offsets[:-1, None], group_offsets[1:, None]
    tile = jnp.arange(T)[None, :]
    touches = jnp.maximum(starts, tile * tm) < jnp.minimum(ends, (tile + 1) * tm)
    marks = jnp.nonzero(touches, size=T + G - 1, fill_value=(G - 1, T - 1))
    group_ids, m_tile_ids = (mark.astype(jnp.int32) for mark in marks)
    return group_offsets, group_ids, m_tile_ids, jnp.sum(touches, dtype=jnp.int32)


def group_metadata(
    group_sizes: Int32[Array, "G"], *, M: int, tm: int
) -> tuple[Int32[Array, "G+1"], Int32[Array, "V"], Int32[Array, "V"], Int32[Array, ""]]:
    """Return where the groups begin and end, and the group and the tile of each visit."""
    # BEGIN SOLUTION
    G, T = len(group_sizes), M // tm
    group_offsets = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(group_sizes)])
    starts, ends = group_offsets[:-1], group_offsets[1:]
    empty = group_sizes == 0
    tiles_per_group = jnp.where(empty, 0, (ends + tm - 1) // tm - starts // tm)
    inside = ~empty & (starts % tm != 0)
    tile_visits = 1 + jnp.bincount(jnp.where(inside, starts // tm, T), length=T)
    V = T + G - 1
    group_ids = jnp.repeat(jnp.arange(G), tiles_per_group, total_repeat_length=V)
    m_tile_ids = jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=V)
    return group_offsets, group_ids, m_tile_ids, jnp.sum(tiles_per_group)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def group_metadata_inputs(key, *, G, M, tm, pattern, dtype):
    """G sizes that sum to M. `pattern` says where the cuts between the groups are."""
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
    return (jnp.diff(jnp.array(offsets, jnp.int32)),)


def test_group_metadata(hidden_case):
    hidden_case.grade(group_metadata)
