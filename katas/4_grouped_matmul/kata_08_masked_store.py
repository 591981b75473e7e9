"""Write only your own rows of a tile that two groups share.

Goal
    Each group of rows has a bias of its own: row r of group g becomes
    x[r] + bias[g]. Write the store of the kernel. The launch is given: it makes
    one visit for each pair of a tile and a group that has rows in it, and
    hands you the tile with that group's bias already added, to all its rows.

Concept
    Copies and registers want whole tiles, while groups begin and end where the
    router has put them. So neighbours meet inside of a tile, and each of them
    is served by a visit of its own, which may change its own rows only. With
    M = 20, tm = 4 and group_sizes = [3, 6, 0, 7, 4], as in the katas before:

        visit            0      1      2      3      4      5      6
        group_ids        0      1      1      1      3      3      4
        m_tile_ids       0      0      1      2      2      3      4

        writes rows     0-2     3     4-7     8     9-11  12-15  16-19

    From revisit_bug you know how an output block lives: as long as steps with
    the same block indices follow each other, they see the same buffer, and it
    goes to HBM once, after the last of them. The tables of group_metadata never
    go back to a tile that they have left, so you may rely on that here:

        o_ref is        [-- tile 0 --][tile 1][-- tile 2 --][tile 3][tile 4]
        copied to HBM                ^       ^             ^       ^       ^

    What belongs to nobody yet is another matter. A buffer isn't cleared when a
    tile begins: the rows of groups that come later hold whatever was there, NaN
    in the strict interpreter. Think about what has to become of them in this
    visit, and who will care; and about what has to become of rows that an
    earlier visit has written. Remember from ragged_tail what can be done with a
    NaN, and what cannot.

    The tables count rows from the top of x, a tile counts its own from 0. And
    they are in SMEM: reading a word takes a scalar index, an int32 as it comes
    from program_id or from another word.

    A neighbour's rows are kept at next to no cost. o_ref is in VMEM, where
    reading it and picking from it take less time than the copies of x and of
    the result, which go on meanwhile.

Shapes
    name                dtype[dims]        memory space   block
    group_offsets_ref   int32[G + 1]       SMEM           all of it
    group_ids_ref       int32[V]           SMEM           all of it
    m_tile_ids_ref      int32[V]           SMEM           all of it
    x_ref               x.dtype[M, N]      VMEM           (tm, tn), a tile
    bias_ref            x.dtype[G, 1, N]   VMEM           (1, tn), a group's
    o_ref               x.dtype[M, N]      VMEM           (tm, tn), a tile

    The grid is (N / tn, V), V = M / tm + G - 1. Visits that are not needed come
    last and bring the last group to the last tile, which does no harm.

Try
    pytest -k masked_store          stuck?  kata hint masked_store
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def masked_store_spec(
    x: Float[Array, "M N"],
    bias: Float[Array, "G 1 N"],
    group_offsets: Int32[Array, "G+1"],
    group_ids: Int32[Array, "V"],
    m_tile_ids: Int32[Array, "V"],
) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    row = jnp.arange(len(x))[:, None]
    group = jnp.sum(group_offsets[None, 1:] <= row, axis=1)
    return x + bias[group, 0]


def masked_store_inputs(key, *, G, M, N, tm, pattern, dtype):
    """Rows of G groups, and the tables of group_metadata for them."""
    x_key, bias_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, N)).astype(dtype)
    bias = jax.random.normal(bias_key, (G, 1, N)).astype(dtype)
    cuts = sorted(jax.random.randint(cut_key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, M // tm // 2 * tm, *odd[1:], M],  # inside of tiles, but one on an edge
        1: [0, *(M // tm // 2 * tm + 1 + cut % (tm - 1) for cut in cuts), M],  # all in one tile
        # inside of tiles, with empty groups: the first, one in the middle, the last
        2: [0, 0, *odd[1 : G // 2], *odd[G // 2 - 1 : -2], M, M],
    }[pattern]
    offsets = sorted(offsets)
    T = M // tm
    visits = [
        (g, t)
        for g in range(G)
        for t in range(T)
        if max(offsets[g], t * tm) < min(offsets[g + 1], (t + 1) * tm)
    ]
    visits += [(G - 1, T - 1)] * (T + G - 1 - len(visits))
    group_ids, m_tile_ids = jnp.array(visits, jnp.int32).T
    return x, bias, jnp.array(offsets, jnp.int32), group_ids, m_tile_ids


def masked_store_kernel(group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, bias_ref, o_ref):
    visit = pl.program_id(1)
    y = x_ref[...] + bias_ref[...]
    # BEGIN SOLUTION
    raise NotImplementedError(
        "store y in this group's rows of o_ref, and leave all others as they are"
    )
    # END SOLUTION


def masked_store(
    x: Float[Array, "M N"],
    bias: Float[Array, "G 1 N"],
    group_offsets: Int32[Array, "G+1"],
    group_ids: Int32[Array, "V"],
    m_tile_ids: Int32[Array, "V"],
    *,
    tm: int = 512,
    tn: int = 512,
) -> Float[Array, "M N"]:
    """Launch: for each block of columns all visits, those that are not needed included."""
    M, N = x.shape
    (V,) = group_ids.shape

    def tile(j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    def group(j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], 0, j

    return pl.pallas_call(
        masked_store_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, V),
            in_specs=[pl.BlockSpec((tm, tn), tile), pl.BlockSpec((None, 1, tn), group)],
            out_specs=pl.BlockSpec((tm, tn), tile),
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(group_offsets, group_ids, m_tile_ids, x, bias)


def test_masked_store(hidden_case):
    hidden_case.grade(masked_store)
