"""Write a launch that is driven by scalar-prefetched tables.

Goal
    The kernel is masked_store's. Write its whole launch. The grid has num_visits steps
    along the visits, an int32 scalar computed on the device.

Concept
    A launch without tables takes grid, in_specs, out_specs and scratch_shapes
    directly. With tables, these go into a grid_spec instead:

        pl.pallas_call(
            kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=...,   how many operands are tables?
                grid=...,
                in_specs=[...],            one for each of the other operands
                out_specs=...,
                scratch_shapes=[...],      if there are any
            ),
            out_shape=...,
            compiler_params=...,
        )(tables first, then the operands of in_specs)

    Tables have no BlockSpec: they are copied whole, before the first step. But
    every index map receives their Refs, after the grid indices and in the order
    of the operands. The body receives them too, before all other Refs.

    The new part is the grid. So far its sizes have been Python ints, known when the
    kernel is compiled. They can also be int32 scalars that the program computes. A
    grid is a loop on the scalar unit; only the shapes of Refs have to be known in
    advance. The tables have room for the worst case, V = M / tm + G - 1 visits, but
    only num_visits of them are used:

        v                0    1    2    3    4    5    6  |  7    8
        group_ids        0    1    1    1    3    3    4  |  4    4
        m_tile_ids       0    0    1    2    2    3    4  |  4    4
                        [------- num_visits = 7 --------]   no step

    A step that changes nothing isn't free: it computes a whole tile. With 64
    experts of equal size on 256 tiles, 63 of 319 steps would be wasted.

    To choose the order of the axes, think about the blocks that are fetched and
    written: visits to one tile must follow each other, for each block of columns.

Shapes
    name                            dtype[dims]        memory space   Ref's shape   block
    group_offsets_ref               int32[G + 1]       SMEM           (G + 1,)      whole
    group_ids_ref, m_tile_ids_ref   int32[V]           SMEM           (V,)          whole
    x_ref, o_ref                    x.dtype[M, N]      VMEM           (tm, tn)      of its tile
    bias_ref                        x.dtype[G, 1, N]   VMEM           (1, tn)       of its group

    Tile and group are the visit's. num_visits, int32[], is not an operand.

Try
    pytest -k launch_masked_store          stuck?  kata hint launch_masked_store

Needs     masked_store, permuted_matmul
Read on   Scalar Prefetch, https://docs.jax.dev/en/latest/pallas/tpu/sparse.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def launch_masked_store_spec(
    x: Float[Array, "M N"],
    bias: Float[Array, "G 1 N"],
    group_offsets: Int32[Array, "G+1"],
    group_ids: Int32[Array, "V"],
    m_tile_ids: Int32[Array, "V"],
    num_visits: Int32[Array, ""],
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    row = jnp.arange(len(x))[:, None]
    group = jnp.sum(group_offsets[None, 1:] <= row, axis=1)
    return x + bias[group, 0]


def launch_masked_store_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, bias_ref, o_ref
):
    """Add the group's bias to the group's rows. Given; don't change it."""
    visit = pl.program_id(1)
    group = group_ids_ref[visit]
    first_row = m_tile_ids_ref[visit] * o_ref.shape[0]
    row = first_row + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
    mine = (row >= group_offsets_ref[group]) & (row < group_offsets_ref[group + 1])
    o_ref[...] = jnp.where(mine, x_ref[...] + bias_ref[...], o_ref[...])


def launch_masked_store(
    x: Float[Array, "M N"],
    bias: Float[Array, "G 1 N"],
    group_offsets: Int32[Array, "G+1"],
    group_ids: Int32[Array, "V"],
    m_tile_ids: Int32[Array, "V"],
    num_visits: Int32[Array, ""],
    *,
    tm: int = 512,
    tn: int = 512,
) -> Float[Array, "M N"]:
    """Launch: for each block of columns, only the visits that are used."""

    # BEGIN SOLUTION
    def tile(j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    def group(j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], 0, j

    return pl.pallas_call(
        launch_masked_store_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(x.shape[1] // tn, num_visits),
            in_specs=[pl.BlockSpec((tm, tn), tile), pl.BlockSpec((None, 1, tn), group)],
            out_specs=pl.BlockSpec((tm, tn), tile),
        ),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="launch_masked_store",
    )(group_offsets, group_ids, m_tile_ids, x, bias)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def launch_masked_store_inputs(key, *, G, M, N, tm, pattern, dtype):
    """Rows of G groups, and the tables of group_metadata for them."""
    x_key, bias_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, N)).astype(dtype)
    bias = jax.random.normal(bias_key, (G, 1, N)).astype(dtype)
    cuts = sorted(jax.random.randint(cut_key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, M // tm // 2 * tm, *odd[1:], M],  # inside tiles, except for one on an edge
        1: [0] * (G // 2) + [M - 1] * (G - G // 2) + [M],  # most groups are empty
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
    num_visits = jnp.int32(len(visits))
    visits += [(G - 1, T - 1)] * (T + G - 1 - len(visits))
    group_ids, m_tile_ids = jnp.array(visits, jnp.int32).T
    return x, bias, jnp.array(offsets, jnp.int32), group_ids, m_tile_ids, num_visits


def test_launch_masked_store(hidden_case):
    hidden_case.grade(launch_masked_store)
