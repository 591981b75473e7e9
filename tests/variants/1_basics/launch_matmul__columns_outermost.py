"""Columns of blocks outermost, all of them in order but the rows: arbitrary before parallel.

Stars: 3
"""


def launch_matmul(x, y, *, bm, bn, bk):
    M, K = x.shape
    _, N = y.shape
    return pl.pallas_call(
        launch_matmul_kernel,
        grid=(N // bn, M // bm, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda j, i, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda j, i, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda j, i, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary", "parallel", "arbitrary")
        ),
    )(x, y)
