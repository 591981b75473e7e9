"""pl.squeezed for the batch, and index maps that take a tuple of the grid's indices.

Stars: 3
"""


def batched_matmul(x, y, *, bm, bn, bk):
    B, M, K = x.shape
    N = y.shape[2]

    def spec(rows, columns, place):
        return pl.BlockSpec((pl.squeezed, rows, columns), lambda b, *ijk: (b, *place(*ijk)))

    return pl.pallas_call(
        batched_matmul_kernel,
        grid=(B, M // bm, N // bn, K // bk),
        in_specs=[
            spec(bm, bk, lambda i, j, k: (i, k)),
            spec(bk, bn, lambda i, j, k: (k, j)),
        ],
        out_specs=spec(bm, bn, lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((B, M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(x, y)
