"""Right kernels of scale_2d in other styles: see docs/authoring.md."""

# ---- cdiv ----

"""Rounds up with pl.cdiv, in a function of its own.

Stars: 3
"""


def legal(size, multiple, whole):
    rounded = pl.cdiv(size, multiple) * multiple
    return min(rounded, whole)


def scale_2d(x, *, bm, bn):
    m, n = x.shape
    bm, bn = legal(bm, 8, m), legal(bn, 128, n)
    block = pl.BlockSpec(block_shape=(bm, bn), index_map=lambda i, j: (i, j))
    return pl.pallas_call(
        scale_2d_kernel,
        grid=(m // bm, n // bn),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x)


# ---- grid_spec ----

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
