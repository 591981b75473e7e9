"""Right kernels of launch_matmul in other styles: see docs/authoring.md."""

# ---- buffered ----

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


# ---- columns_outermost ----

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


# ---- grid_spec ----

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


# ---- tpu_info ----

"""Takes longer steps along K as far as a sixteenth of the chip's VMEM holds their blocks.

Stars: 3
"""


def launch_matmul(x, y, *, bm, bn, bk):
    (M, K), N = x.shape, y.shape[1]
    room = pltpu.get_tpu_info().vmem_capacity_bytes // 16
    while K % (2 * bk) == 0 and (bm + bn) * 2 * bk * x.dtype.itemsize <= room:
        bk *= 2
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
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, y)


# ---- as_in_a_model ----

"""Names its inputs, puts them on the device and behind a barrier, as larger programs do.

Stars: 3
"""

from jax.ad_checkpoint import checkpoint_name


def launch_matmul(x, y, *, bm=512, bn=512, bk=512):
    (M, K), N = x.shape, y.shape[1]
    x, y = jax.lax.stop_gradient((checkpoint_name(x, "x"), jax.device_put(y)))
    x, y = jax.lax.optimization_barrier((x, y))
    result = jax.checkpoint(
        pl.pallas_call(
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
                dimension_semantics=("parallel", "parallel", "arbitrary")
            ),
        )
    )(x, y)
    return checkpoint_name(result, "product")
