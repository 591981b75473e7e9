"""Multiply groups of rows by their own matrices, for groups of any size.

Goal
    Write the body of a grouped matmul for groups of any size: row r of group g
    becomes x[r] @ w[g]. Some groups are empty, and many end inside a tile. The
    launch is given: it makes the tables with group_metadata. For each visit and
    each k, its index maps fetch a block of x and a block of the group's w.

Concept
    A router doesn't distribute tokens evenly. You could pad each group to whole
    tiles, but that takes a copy of x with about half a tile of extra rows per
    expert, and the padding has to be removed again. Visits leave x where it is.
    With M = 20, tm = 4, group_sizes = [3, 6, 0, 7, 4] and two k steps:

        visit            0      1      2      3      4      5      6
        k               0  1   0  1   0  1   0  1   0  1   0  1   0  1
        rows of x       0-3    0-3    4-7    8-11   8-11   12-15  16-19
        w               w[0]   w[1]   w[1]   w[1]   w[3]   w[3]   w[4]
        writes rows     0-2     3     4-7     8     9-11   12-15  16-19

    This kata combines two buffers that you have used before, with different lifetimes.
    acc_ref belongs to a visit: it holds a sum over k, and every visit starts a new
    sum. o_ref belongs to a tile: visits 3 and 4 see the same buffer, each fills in its
    own rows, and the buffer is copied to HBM after visit 4.

    The matrix unit multiplies whole tiles: in visit 1, three of the four rows are
    multiplied for nothing. The store decides which rows count, once per visit. You
    could mask x in each k step instead, and the group's own rows would still be right.
    But the rows of other groups would then be zeros, and you would still have to keep
    these zeros from overwriting rows that are already in o_ref.

    The mask costs almost nothing, because the vector unit, which computes it,
    has little else to do. For eight experts of 2048 x 2048, 8192 rows in
    bfloat16 and tiles of 512 x 1024 x 1024, the predicted time on a v5e is
    480.0 µs with the mask and 479.9 µs without it.

Shapes
    name                            dtype[dims]        memory space   Ref's shape   block
    group_offsets_ref               int32[G + 1]       SMEM           (G + 1,)      whole
    group_ids_ref, m_tile_ids_ref   int32[V]           SMEM           (V,)          whole
    x_ref                           x.dtype[M, K]      VMEM           (tm, tk)      (tile, k)
    w_ref                           x.dtype[G, K, N]   VMEM           (tk, tn)      (group, k, j)
    o_ref                           x.dtype[M, N]      VMEM           (tm, tn)      (tile, j)
    acc_ref                         float32[tm, tn]    VMEM scratch   (tm, tn)      -

    The grid is (N / tn, num_visits, K / tk), V = M / tm + G - 1; tile and group are
    the visit's.

Try
    pytest -k ragged_grouped_matmul          stuck?  kata hint ragged_grouped_matmul

Needs     masked_store, aligned_grouped_matmul
Read on   MegaBlocks, https://arxiv.org/abs/2211.15841
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def ragged_grouped_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "G K N"], group_sizes: Int32[Array, "G"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy: x @ w for every w, then pick each row's."""
    M, G = len(x), len(w)
    group_of_row = jnp.repeat(jnp.arange(G), group_sizes, total_repeat_length=M)
    return jnp.take_along_axis(x @ w, group_of_row[None, :, None], axis=0)[0]


def ragged_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref
):
    # BEGIN SOLUTION
    visit, k, last = pl.program_id(1), pl.program_id(2), pl.num_programs(2) - 1

    def product():
        return jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(k < last)
    def _():
        acc_ref[...] += product()

    @pl.when(k == last)
    def _():
        total = acc_ref[...] + product()
        group = group_ids_ref[visit]
        first_row = m_tile_ids_ref[visit] * o_ref.shape[0]
        row = first_row + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row >= group_offsets_ref[group]) & (row < group_offsets_ref[group + 1])
        o_ref[...] = jnp.where(mine, total.astype(o_ref.dtype), o_ref[...])

    # END SOLUTION


def ragged_grouped_matmul(
    x: Float[Array, "M K"],
    w: Float[Array, "G K N"],
    group_sizes: Int32[Array, "G"],
    *,
    tm: int = 512,
    tk: int = 1024,
    tn: int = 1024,
) -> Float[Array, "M N"]:
    """Launch: for each block of columns, all visits, and for each visit, all of K."""
    M, K = x.shape
    _, _, N = w.shape
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(group_sizes, M=M, tm=tm)

    def x_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], k

    def w_block(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], k, j

    def o_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    return pl.pallas_call(
        ragged_grouped_matmul_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[pl.BlockSpec((tm, tk), x_tile), pl.BlockSpec((None, tk, tn), w_block)],
            out_specs=pl.BlockSpec((tm, tn), o_tile),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
        name="ragged_grouped_matmul",
    )(group_offsets, group_ids, m_tile_ids, x, w)


# ---- Given: inputs and helpers. ----


def ragged_grouped_matmul_inputs(key, *, M, K, N, G, tm, pattern, dtype):
    """Group sizes like a router's: empty groups, several groups in one tile, one large group."""
    x_key, w_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K))
    w = jax.random.normal(w_key, (G, K, N))
    lowest = (1, 2 * tm, M // 2)[pattern]
    drawn = jax.random.randint(cut_key, (G - 1,), lowest, M).tolist()
    cuts = [row | 1 for row in sorted(drawn)]  # odd: inside a tile
    if pattern == 0:  # the first, the last, and one in between have no rows
        cuts[0], cuts[G // 2], cuts[-1] = 0, cuts[G // 2 - 1], M
    if pattern == 1:  # three groups end in the first tile, the fourth at the end of the second
        cuts[:4] = tm // 8, tm // 2 + 3, tm - 1, 2 * tm
    group_sizes = jnp.diff(jnp.array([0, *cuts, M], jnp.int32))
    return x.astype(dtype), w.astype(dtype), group_sizes


def group_metadata(group_sizes, *, M, tm, visit_empty_groups=False):
    """List the group and tile of each visit, like group_metadata, or also of empty groups."""
    G, T = len(group_sizes), M // tm
    group_offsets = jnp.cumulative_sum(group_sizes, include_initial=True)
    starts, ends = group_offsets[:-1], group_offsets[1:]
    empty = group_sizes == 0
    tiles_per_group = jnp.where(empty, visit_empty_groups, (ends + tm - 1) // tm - starts // tm)
    # A tile is visited once, and once more for each group that starts after its first row.
    inside = jnp.where(empty, visit_empty_groups, starts % tm != 0)
    tile_visits = 1 + jnp.bincount(jnp.where(inside, starts // tm, T), length=T)
    V = T + G - 1
    group_ids = jnp.repeat(jnp.arange(G), tiles_per_group, total_repeat_length=V)
    m_tile_ids = jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=V)
    return group_offsets, group_ids, m_tile_ids, jnp.sum(tiles_per_group)


def test_ragged_grouped_matmul(hidden_case):
    hidden_case.grade(ragged_grouped_matmul)
