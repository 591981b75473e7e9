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
