"""Right kernels of launch_masked_store in other styles: see docs/authoring.md."""

# ---- star_tables ----

"""Index maps as lambdas with *tables; a list of results.

Stars: 3
"""


def launch_masked_store(x, bias, group_offsets, group_ids, m_tile_ids, num_visits, *, tm, tn):
    M, N = x.shape
    tile = pl.BlockSpec((tm, tn), lambda j, visit, *tables: (tables[2][visit], j))
    row = pl.BlockSpec((pl.squeezed, 1, tn), lambda j, visit, *tables: (tables[1][visit], 0, j))
    (result,) = pl.pallas_call(
        launch_masked_store_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits),
            in_specs=[tile, row],
            out_specs=[tile],
        ),
        out_shape=[jax.ShapeDtypeStruct((M, N), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="masked_store",
    )(group_offsets, group_ids, m_tile_ids, x, bias)
    return result


# ---- unused_visits ----

"""A grid of fixed size, with all visits: those that are not used repeat the last tile.

Stars: 3, since the few steps that are not used take little time.
"""


def launch_masked_store(x, bias, group_offsets, group_ids, m_tile_ids, num_visits, *, tm, tn):
    def tile(j, visit, offsets, ids, tiles, used):
        return tiles[jnp.minimum(visit, used[0] - 1)], j

    def group(j, visit, offsets, ids, tiles, used):
        return ids[jnp.minimum(visit, used[0] - 1)], 0, j

    def kernel(offsets_ref, ids_ref, tiles_ref, used_ref, x_ref, bias_ref, o_ref):
        @pl.when(pl.program_id(1) < used_ref[0])
        def _():
            launch_masked_store_kernel(offsets_ref, ids_ref, tiles_ref, x_ref, bias_ref, o_ref)

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(x.shape[1] // tn, group_ids.shape[0]),
            in_specs=[pl.BlockSpec((tm, tn), tile), pl.BlockSpec((None, 1, tn), group)],
            out_specs=pl.BlockSpec((tm, tn), tile),
        ),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(group_offsets, group_ids, m_tile_ids, num_visits[None], x, bias)
