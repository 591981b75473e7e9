"""A pipeline inside the kernel; the accumulator comes from run_scoped.

Stars: 3
"""


def tiled_matmul(x, y, *, bm, bn, bk):
    M, K = x.shape
    _, N = y.shape

    def kernel(x_ref, y_ref, o_ref):
        def scoped(acc_ref):
            pltpu.emit_pipeline(
                lambda *refs: tiled_matmul_kernel(*refs, acc_ref),
                grid=(M // bm, N // bn, K // bk),
                in_specs=[
                    pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
                    pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
                ],
                out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
            )(x_ref, y_ref, o_ref)

        pl.run_scoped(scoped, pltpu.VMEM((bm, bn), jnp.float32))

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
    )(x, y)
