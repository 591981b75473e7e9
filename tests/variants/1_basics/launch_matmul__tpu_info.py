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
