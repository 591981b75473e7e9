"""Multiply only the rows whose experts are on this chip.

Goal
    A chip holds L of the E experts: w[i] belongs to expert group_offset + i. The rows
    of x are sorted by expert, as before, and group_sizes covers all E experts. Rows of
    this chip's experts are multiplied by their weights. All other rows of the result
    are 0. Write the store in the kernel, and the launch.

Concept
    This is *expert parallelism*. Each chip computes its experts' rows, and a sum over
    the chips (`jax.lax.psum`) gives the whole result, since each row is 0 on all other
    chips. Take 20 rows of 5 experts, in tiles of 4, with experts 1 and 2 on this chip:

        tile           0        1        2        3        4
        expert      0 0 0 1  1 1 1 1  1 1 2 2  2 3 3 3  3 4 4 4
        result      0 0 0 x  x x x x  x x x x  x 0 0 0  0 0 0 0
                    [------------ visited ------------]  never visited
        visit       (0) 1       2       3 4      5 (6)   (7) (8)

    Visits of other experts are in brackets. A chip that ran them would read all of x,
    and it has no weights for them. The tables are sorted by group, so a chip's visits
    follow each other: skip the visits of earlier experts, and stop before those of
    later experts. The grid already has a dynamic size. The number of skipped visits,
    too, is known only on the device.

    Two kinds of rows must become 0. This chip never visits tile 4, so its rows must be
    0 before the kernel runs:

        input_output_aliases={n: 0}      operand n and result 0 are one array

    If operand n holds zeros, tiles without a visit stay 0. The kernel doesn't read
    this operand: a BlockSpec with `memory_space=pl.ANY` leaves it in HBM. n counts all
    operands of the call, including the tables.

    The other rows are in tiles 0 and 3, at the ends of the chip's range. These tiles
    are visited, and whole blocks are copied to HBM. When the first visit to a tile
    begins, o_ref is undefined, whatever the array in HBM contains.

Shapes
    name                            dtype[dims]        memory space   Ref's shape   block
    group_offsets_ref               int32[E + 1]       SMEM           (E + 1,)      whole
    group_ids_ref, m_tile_ids_ref   int32[V]           SMEM           (V,)          whole
    group_offset_ref                int32[1]           SMEM           (1,)          whole
    x_ref                           x.dtype[M, K]      VMEM           (tm, tk)      (tile, k)
    w_ref                           x.dtype[L, K, N]   VMEM           (tk, tn)      yours
    zeros_ref                       x.dtype[M, N]      HBM            (M, N)        whole
    o_ref                           x.dtype[M, N]      VMEM           (tm, tn)      (tile, j)
    acc_ref                         float32[tm, tn]    VMEM scratch   (tm, tn)      -

    The grid is (N / tn, the chip's visits, K / tk), with indices j, visit, k.
    V = M / tm + E - 1; tile is the visit's.

Try
    pytest -k sharded_experts          stuck?  kata hint sharded_experts

Needs     launch_grouped_matmul
Read on   GShard, https://arxiv.org/abs/2006.16668
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def sharded_experts_spec(
    x: Float[Array, "M K"],
    w: Float[Array, "L K N"],
    group_sizes: Int32[Array, "E"],
    group_offset: Int32[Array, "1"],
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy: x @ w for every w, then pick each row's."""
    (M, _), (L, _, _), (E,) = x.shape, w.shape, group_sizes.shape
    group_of_row = jnp.repeat(jnp.arange(E), group_sizes, total_repeat_length=M)
    here = group_of_row - group_offset
    picked = jnp.take_along_axis(x @ w, jnp.clip(here, 0, L - 1)[None, :, None], axis=0)[0]
    return jnp.where(((here >= 0) & (here < L))[:, None], picked, 0)


def sharded_experts_kernel(
    group_offsets_ref,
    group_ids_ref,
    m_tile_ids_ref,
    group_offset_ref,
    x_ref,
    w_ref,
    zeros_ref,
    o_ref,
    acc_ref,
):
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
        total = (acc_ref[...] + product()).astype(o_ref.dtype)
        group, tile = group_ids_ref[visit], m_tile_ids_ref[visit]
        row = tile * o_ref.shape[0] + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row >= group_offsets_ref[group]) & (row < group_offsets_ref[group + 1])
        # BEGIN SOLUTION
        new = (visit == 0) | (tile != m_tile_ids_ref[jnp.maximum(visit - 1, 0)])
        others = jnp.where(new, jnp.zeros_like(total), o_ref[...])
        o_ref[...] = jnp.where(mine, total, others)
        # END SOLUTION


def sharded_experts(
    x: Float[Array, "M K"],
    w: Float[Array, "L K N"],
    group_sizes: Int32[Array, "E"],
    group_offset: Int32[Array, "1"],
    *,
    tm: int = 256,
    tk: int = 1024,
    tn: int = 1024,
) -> Float[Array, "M N"]:
    """Launch: the visits of this chip's experts, onto an array of zeros."""
    (M, K), (L, _, N) = x.shape, w.shape
    group_offsets, group_ids, m_tile_ids, all_visits = group_metadata(group_sizes, M=M, tm=tm)
    # BEGIN SOLUTION
    used = jnp.arange(len(group_ids)) < all_visits
    skipped = jnp.sum(used & (group_ids < group_offset))
    num_visits = jnp.sum(used & (group_ids < group_offset + L)) - skipped
    group_ids, m_tile_ids = jnp.roll(group_ids, -skipped), jnp.roll(m_tile_ids, -skipped)

    def x_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref, group_offset_ref):
        return m_tile_ids_ref[visit], k

    def w_block(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref, group_offset_ref):
        return group_ids_ref[visit] - group_offset_ref[0], k, j

    def o_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref, group_offset_ref):
        return m_tile_ids_ref[visit], j

    return pl.pallas_call(
        sharded_experts_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), x_tile),
                pl.BlockSpec((None, tk, tn), w_block),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec((tm, tn), o_tile),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        input_output_aliases={6: 0},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
        name="sharded_experts",
    )(group_offsets, group_ids, m_tile_ids, group_offset, x, w, jnp.zeros((M, N), x.dtype))
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def sharded_experts_inputs(key, *, M, K, N, E, L, pattern, dtype):
    """The chip has the first, middle or last experts; their rows begin and end inside tiles."""
    x_key, w_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K))
    w = jax.random.normal(w_key, (L, K, N))
    group_offset = (0, (E - L) // 2, E - L)[pattern]
    first, end = ((0, M // 3 + 5), (M // 3 + 3, M - M // 4 - 5), (M - M // 4 - 9, M))[pattern]
    cuts = jax.random.randint(cut_key, (L - 1,), first + 1, end).tolist()
    before = [first * (i + 1) // group_offset for i in range(group_offset)]
    after = [end + (M - end) * i // (E - L - group_offset) for i in range(E - L - group_offset)]
    cuts = sorted([*before, *cuts, *after])
    if pattern == 1:  # the chip's first expert has no rows
        cuts[group_offset] = first
    group_sizes = jnp.diff(jnp.array([0, *cuts, M], jnp.int32))
    offset = jnp.array([group_offset], jnp.int32)
    return x.astype(dtype), w.astype(dtype), group_sizes, offset


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


def test_sharded_experts(hidden_case):
    hidden_case.grade(sharded_experts)
