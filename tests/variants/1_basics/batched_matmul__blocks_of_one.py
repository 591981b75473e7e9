"""Keeps the batch's dimension of size 1 in every block, and indexes it away.

Stars: 3
"""


def batched_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k = pl.program_id(3)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[0], y_ref[0], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(3) - 1)
    def _():
        o_ref[0] = acc_ref[...].astype(o_ref.dtype)


def batched_matmul(x, y, *, bm, bn, bk):
    B, M, K = x.shape
    _, _, N = y.shape
    return pl.pallas_call(
        batched_matmul_kernel,
        grid=(B, M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((1, bm, bk), lambda b, i, j, k: (b, i, k)),
            pl.BlockSpec((1, bk, bn), lambda b, i, j, k: (b, k, j)),
        ],
        out_specs=pl.BlockSpec((1, bm, bn), lambda b, i, j, k: (b, i, j)),
        out_shape=jax.ShapeDtypeStruct((B, M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(x, y)
