"""A PrefetchScalarGridSpec without prefetch, index maps with names, and a limit for VMEM.

Stars: 2, since all of y is fetched again for each row of blocks.
"""


def launch_matmul(x, y, *, bm, bn, bk):
    (M, K), N = x.shape, y.shape[1]

    def x_index(i, j, k):
        del j
        return i, k

    def y_index(i, j, k):
        del i
        return k, j

    def o_index(i, j, k):
        del k
        return i, j

    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(pl.cdiv(M, bm), pl.cdiv(N, bn), pl.cdiv(K, bk)),
        in_specs=[pl.BlockSpec((bm, bk), x_index), pl.BlockSpec((bk, bn), y_index)],
        out_specs=pl.BlockSpec((bm, bn), o_index),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )
    return pl.pallas_call(
        launch_matmul_kernel,
        grid_spec=grid_spec,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=32 * 1024 * 1024,
        ),
        cost_estimate=pl.CostEstimate(
            flops=2 * M * N * K,
            bytes_accessed=(x.size + y.size + M * N) * x.dtype.itemsize,
            transcendentals=0,
        ),
    )(x, y)
