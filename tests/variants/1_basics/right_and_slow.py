"""Right kernels of right_and_slow in other styles: see docs/authoring.md."""

# ---- all_rows ----

"""Up to 1024 rows of x in each block, so that w comes from HBM once.

Stars: 3
"""


def right_and_slow(x, w):
    M, K = x.shape
    N = w.shape[1]
    bm, bn, bk = min(M, 1024), min(N, 512), min(K, 512)
    return pl.pallas_call(
        right_and_slow_kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w)


# ---- rows_first ----

"""Walks along the columns first, with wide blocks of w.

Stars: 3
"""


def right_and_slow(x, w):
    M, K = x.shape
    N = w.shape[1]
    bm, bn, bk = min(M, 512), min(N, 1024), min(K, 512)
    return pl.pallas_call(
        right_and_slow_kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w)
