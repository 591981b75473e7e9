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
