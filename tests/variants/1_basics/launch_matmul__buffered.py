"""Says how many buffers each operand has, and gives the results as a list.

Stars: 3
"""


def launch_matmul(x, y, *, bm, bn, bk):
    M, K = x.shape
    _, N = y.shape
    two = pl.Buffered(2)
    [result] = pl.pallas_call(
        launch_matmul_kernel,
        grid=(N // bn, M // bm, K // bk),
        in_specs=(
            pl.BlockSpec((bm, bk), lambda j, i, k: (i, k), pipeline_mode=two),
            pl.BlockSpec((bk, bn), lambda j, i, k: (k, j), pipeline_mode=two),
        ),
        out_specs=[pl.BlockSpec((bm, bn), lambda j, i, k: (i, j))],
        out_shape=[jax.ShapeDtypeStruct((M, N), x.dtype)],
        scratch_shapes=(pltpu.VMEM((bm, bn), jnp.float32),),
        name="matmul",
    )(x, y)
    return result
