"""Right kernels of revisit_bug in other styles: see docs/authoring.md."""

# ---- columns_outermost ----

"""Columns of y's blocks outermost; k stays innermost.

Stars: 3
"""


def revisit_bug(x, y, *, bm, bn, bk):
    M, K = x.shape
    _, N = y.shape
    return pl.pallas_call(
        lambda x_ref, y_ref, o_ref: revisit_bug_kernel(x_ref, y_ref, o_ref, k_axis=2),
        grid=(N // bn, M // bm, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda j, i, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda j, i, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda j, i, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="revisit_bug",
    )(x, y)


# ---- one_axis_for_blocks ----

"""One grid axis for all blocks of the result, split by division in the index maps.

Stars: 3
"""


def revisit_bug(x, y, *, bm, bn, bk):
    M, K = x.shape
    _, N = y.shape
    columns = N // bn
    return pl.pallas_call(
        lambda x_ref, y_ref, o_ref: revisit_bug_kernel(x_ref, y_ref, o_ref, k_axis=1),
        grid=(M // bm * columns, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda ij, k: (ij // columns, k)),
            pl.BlockSpec((bk, bn), lambda ij, k: (k, ij % columns)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda ij, k: (ij // columns, ij % columns)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x, y)
