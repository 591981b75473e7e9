"""Keeps x in bfloat16 once it is on fp8's grid: more VMEM, and one cast less in every step.

Stars: 2 or 3
"""


def fp8_matmul_kernel(scales_ref, x_ref, w_ref, o_ref, on_grid_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        clipped = jnp.clip(x_ref[...] / scales_ref[0], -LARGEST, LARGEST)
        on_grid_ref[...] = clipped.astype(jnp.float8_e4m3fn).astype(jnp.bfloat16)

    y = jnp.dot(
        on_grid_ref[...], w_ref[...].astype(jnp.bfloat16), preferred_element_type=jnp.float32
    )
    o_ref[...] = (y * (scales_ref[0] * scales_ref[1])).astype(o_ref.dtype)


def fp8_matmul(x, w, scales, *, bm, bn):
    M, K = x.shape
    _, N = w.shape
    return pl.pallas_call(
        fp8_matmul_kernel,
        grid=(M // bm, N // bn),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec((bm, K), lambda i, j: (i, 0)),
            pl.BlockSpec((K, bn), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, K), jnp.bfloat16)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(scales, x, w)
