"""Compute the gradient of each group's matrix by summing over the rows of the group.

Goal
    Write the body of the kernel that computes the gradient of a grouped matmul
    with respect to its weights. If y[r] = x[r] @ w[g] for the rows r of group
    g, and dy is the gradient of y, then

        dw[g] = x[rows of g].T @ dy[rows of g]          [K, N], like w[g]

    A group without rows gets zeros. The launch is given. The result has the
    inputs' dtype, but the sums are in float32.

Concept
    The grouped matmul kept rows apart; here the sum runs over the rows. M is
    now the inner dimension, so the visits are the innermost axis of the grid,
    and the visits of one group share a block of dw[g]:

        visit            0      1      2      3      4      5      6      7
        group            0      1      1      1      2      3      3      4
        tile             0      0      1      2      2      2      3      4
        rows of g       0-2     3     4-7     8     none   9-11  12-15  16-19

        acc_ref      [dw[0]] [------ dw[1] ------] [dw[2]] [--- dw[3] ---] ...

    Group 2 is empty. In the forward pass it had no visit. Here it has one, in
    the tile where it would begin (group_metadata gets visit_empty_groups=True),
    because a block that no step writes keeps whatever bits were in memory. This
    visit has nothing to multiply, though.

    A mask before a sum is not the same as a mask after it. The rows of other
    groups must not be part of the sum, and a zero adds nothing to a sum. But
    zero times a value is zero only if the value is finite. If the activation or
    gradient of a token overflows to inf or NaN, it may spoil the gradient of
    its own group, but never that of another group that happens to share the
    tile. Both x_ref and dy_ref contain rows of other groups, and either may
    contain such a value.

    You transpose nothing, neither in HBM nor in your code. You tell
    jax.lax.dot_general which dimension of each operand to sum over, here the rows
    of both. The compiler takes care of the rest.

    Count the group's first row, and the first row after the group, from the top of
    this visit's tile. If the first is 0 or more, the group begins here.

Shapes
    name                            dtype[dims]        memory space   Ref's shape   block
    group_offsets_ref               int32[G + 1]       SMEM           (G + 1,)      whole
    group_ids_ref, m_tile_ids_ref   int32[V]           SMEM           (V,)          whole
    x_ref                           x.dtype[M, K]      VMEM           (tm, tk)      (tile, i)
    dy_ref                          x.dtype[M, N]      VMEM           (tm, tn)      (tile, j)
    dw_ref                          x.dtype[G, K, N]   VMEM           (tk, tn)      (group, i, j)
    acc_ref                         float32[tk, tn]    VMEM scratch   (tk, tn)      -

    The grid is (K / tk, N / tn, num_visits); tile and group are the visit's.

Try
    pytest -k transposed_grouped_matmul          stuck?  kata hint transposed_grouped_matmul

Needs     ragged_grouped_matmul
Read on   MegaBlocks, https://arxiv.org/abs/2211.15841
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def transposed_grouped_matmul_spec(
    x: Float[Array, "M K"], dy: Float[Array, "M N"], group_sizes: Int32[Array, "G"]
) -> Float[Array, "G K N"]:
    """The required result, in plain jax.numpy."""
    ends = jnp.cumsum(group_sizes)
    row = jnp.arange(len(x))
    mine = (row >= (ends - group_sizes)[:, None]) & (row < ends[:, None])
    x, dy = (jnp.where(mine[:, :, None], rows, 0) for rows in (x, dy))
    return jnp.swapaxes(x, 1, 2) @ dy


def transposed_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, dy_ref, dw_ref, acc_ref
):
    # BEGIN SOLUTION
    visit, tm = pl.program_id(2), x_ref.shape[0]
    group, first_row = group_ids_ref[visit], m_tile_ids_ref[visit] * tm
    start = group_offsets_ref[group] - first_row
    end = group_offsets_ref[group + 1] - first_row

    def masked(ref):
        row = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
        return jnp.where((row >= start) & (row < end), ref[...], 0)

    @pl.when(start >= 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(start < end)
    def _():
        rows_of_both = (((0,), (0,)), ((), ()))
        acc_ref[...] += jax.lax.dot_general(
            masked(x_ref), masked(dy_ref), rows_of_both, preferred_element_type=jnp.float32
        )

    @pl.when(end <= tm)
    def _():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

    # END SOLUTION


def transposed_grouped_matmul(
    x: Float[Array, "M K"],
    dy: Float[Array, "M N"],
    group_sizes: Int32[Array, "G"],
    *,
    tm: int = 512,
    tk: int = 1024,
    tn: int = 1024,
) -> Float[Array, "G K N"]:
    """Launch: for each block of K and N, all visits, including those of empty groups."""
    M, K = x.shape
    _, N = dy.shape
    (G,) = group_sizes.shape
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(
        group_sizes, M=M, tm=tm, visit_empty_groups=True
    )

    def x_tile(i, j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], i

    def dy_tile(i, j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    def dw_block(i, j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], i, j

    return pl.pallas_call(
        transposed_grouped_matmul_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(K // tk, N // tn, num_visits),
            in_specs=[pl.BlockSpec((tm, tk), x_tile), pl.BlockSpec((tm, tn), dy_tile)],
            out_specs=pl.BlockSpec((None, tk, tn), dw_block),
            scratch_shapes=[pltpu.VMEM((tk, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((G, K, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="transposed_grouped_matmul",
    )(group_offsets, group_ids, m_tile_ids, x, dy)


# ---- Given: inputs and helpers. ----


def transposed_grouped_matmul_inputs(key, *, M, K, N, G, tm, pattern, dtype):
    """Group sizes like a router's; in one pattern, NaN and inf next to another group's rows."""
    x_key, dy_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K))
    dy = jax.random.normal(dy_key, (M, N))
    lowest = (1, 2 * tm, M // 2)[pattern]
    drawn = jax.random.randint(cut_key, (G - 1,), lowest, M).tolist()
    cuts = [row | 1 for row in sorted(drawn)]  # odd: inside a tile
    if pattern == 0:  # the first, the last, and one in between have no rows
        cuts[0], cuts[G // 2], cuts[-1] = 0, cuts[G // 2 - 1], M
    if pattern == 1:  # three groups end in the first tile, the fourth at the end of the second
        cuts[:4] = tm // 8, tm // 2 + 3, tm - 1, 2 * tm
    group_sizes = jnp.diff(jnp.array([0, *cuts, M], jnp.int32))
    if pattern == 2:
        x = x.at[cuts[1], 3].set(jnp.nan)
        dy = dy.at[cuts[1] - 1, 5].set(jnp.inf)
    return x.astype(dtype), dy.astype(dtype), group_sizes


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


def test_transposed_grouped_matmul(hidden_case):
    hidden_case.grade(transposed_grouped_matmul)
