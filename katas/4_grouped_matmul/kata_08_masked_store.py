"""Write only your own rows of a tile that two groups share.

Goal
    Each group of rows has its own bias: row r of group g becomes
    x[r] + bias[g]. Write the store of the kernel. The launch is given: it makes
    one visit for each pair of a tile and a group that has rows in the tile. In
    each visit, the body has already added that group's bias to all rows of the
    tile; the sum is y.

Concept
    Copies and registers work on whole tiles, but groups begin and end wherever
    the router has put them. So two neighboring groups can meet inside a tile.
    Each of them then gets its own visit, which may change only its own rows.
    With M = 20, tm = 4 and group_sizes = [3, 6, 0, 7, 4], as in earlier katas:

        visit            0      1      2      3      4      5      6
        group_ids        0      1      1      1      3      3      4
        m_tile_ids       0      0      1      2      2      3      4

        writes rows     0-2     3     4-7     8     9-11  12-15  16-19

    From revisit_bug you know how an output block behaves: consecutive steps
    with the same block indices see the same buffer, and the buffer is copied to
    HBM once, after the last of these steps. The tables of group_metadata never
    return to a tile that they have left, so you can rely on that here:

        o_ref is        [-- tile 0 --][tile 1][-- tile 2 --][tile 3][tile 4]
        copied to HBM                ^       ^             ^       ^       ^

    What about the rows of other groups? A buffer isn't cleared when a tile begins.
    Rows of later groups hold whatever was in memory, which is NaN in the strict
    interpreter. What should this visit do with them, and does their value matter to
    anyone? And what should it do with rows that an earlier visit has written? Remember
    from ragged_tail which operations keep a NaN and which drop it.

    The tables count rows from the top of x; a tile counts its rows from 0. The
    tables are in SMEM: you read them one word at a time, with a scalar int32
    index, such as the result of program_id or a word of another table.

    Keeping a neighbor's rows costs almost nothing: o_ref is in VMEM, and reading it
    takes less time than the copies of x and the result, which run at the same time.

Shapes
    name                            dtype[dims]        memory space   Ref's shape   block
    group_offsets_ref               int32[G + 1]       SMEM           (G + 1,)      whole
    group_ids_ref, m_tile_ids_ref   int32[V]           SMEM           (V,)          whole
    x_ref, o_ref                    x.dtype[M, N]      VMEM           (tm, tn)      (tile, j)
    bias_ref                        x.dtype[G, 1, N]   VMEM           (1, tn)       (group, 0, j)

    The grid is (N / tn, V), V = M / tm + G - 1; tile and group are the visit's.
    Unused visits come last: the last group in the last tile again, which is harmless.

Try
    pytest -k masked_store          stuck?  kata hint masked_store

Needs     group_metadata, ragged_tail, revisit_bug
Read on   MegaBlocks, https://arxiv.org/abs/2211.15841
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
    """The required result, in plain jax.numpy."""
    row = jnp.arange(len(x))[:, None]
    group = jnp.sum(group_offsets[None, 1:] <= row, axis=1)
    return x + bias[group, 0]


def masked_store_kernel(group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, bias_ref, o_ref):
    visit = pl.program_id(1)
    y = x_ref[...] + bias_ref[...]
    # BEGIN SOLUTION
    raise NotImplementedError(
        "store y in this group's rows of o_ref, and leave all other rows as they are"
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
    """Launch: for each block of columns, all visits, including the unused ones."""
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
        name="masked_store",
    )(group_offsets, group_ids, m_tile_ids, x, bias)


# ---- Given: inputs and helpers. ----


def masked_store_inputs(key, *, G, M, N, tm, pattern, dtype):
    """Rows of G groups, and the tables of group_metadata for them."""
    x_key, bias_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, N)).astype(dtype)
    bias = jax.random.normal(bias_key, (G, 1, N)).astype(dtype)
    cuts = sorted(jax.random.randint(cut_key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, M // tm // 2 * tm, *odd[1:], M],  # inside tiles, except for one on an edge
        1: [0, *(M // tm // 2 * tm + 1 + cut % (tm - 1) for cut in cuts), M],  # all in one tile
        # inside tiles; the first group, one in the middle, and the last are empty
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


def test_masked_store(hidden_case):
    hidden_case.grade(masked_store)
