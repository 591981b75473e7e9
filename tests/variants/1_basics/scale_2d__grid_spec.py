"""A GridSpec with columns of blocks outermost, and Blocked dimensions.

Stars: 3
"""


def scale_2d(x, *, bm, bn):
    m, n = x.shape
    bm, bn = min(-(-bm // 8) * 8, m), min(-(-bn // 128) * 128, n)
    block = pl.BlockSpec((pl.Blocked(bm), pl.Blocked(bn)), lambda j, i: (i, j))
    return pl.pallas_call(
        scale_2d_kernel,
        grid_spec=pl.GridSpec(grid=(n // bn, m // bm), in_specs=[block], out_specs=block),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x)
