"""Right kernels of fp8_matmul in other styles: see docs/authoring.md."""

# ---- kept_in_bfloat16 ----

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


# ---- strips_of_k ----

"""Sums over strips of K in a value, and folds x's scale into the strips' quantisation loop.

Stars: 3
"""


def fp8_matmul_kernel(scales_ref, x_ref, w_ref, o_ref, x8_ref):
    K = x_ref.shape[1]
    strips = [pl.ds(start, K // 2) for start in (0, K // 2)]

    @pl.when(pl.program_id(1) == 0)
    def _():
        for strip in strips:
            scaled = x_ref[:, strip].astype(jnp.float32) / scales_ref[0]
            x8_ref[:, strip] = jax.lax.clamp(-448.0, scaled, 448.0).astype(x8_ref.dtype)

    last, first = (
        jax.lax.dot(x8_ref[:, strip], w_ref[strip, :], preferred_element_type=jnp.float32)
        for strip in reversed(strips)
    )
    o_ref[...] = ((first + last) * scales_ref[0] * scales_ref[1]).astype(o_ref.dtype)


# ---- upcast ----

"""Casts both sides to bfloat16 itself, clips by minimum and maximum, scales in two goes.

Stars: 2 or 3
"""


def fp8_matmul_kernel(scales_ref, x_ref, w_ref, o_ref, x8_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        scaled = x_ref[...].astype(jnp.float32) * (1 / scales_ref[0])
        x8_ref[...] = jnp.minimum(jnp.maximum(scaled, -448.0), 448.0).astype(jnp.float8_e4m3fn)

    y = jnp.dot(
        x8_ref[...].astype(jnp.bfloat16),
        w_ref[...].astype(jnp.bfloat16),
        preferred_element_type=jnp.float32,
    )
    o_ref[...] = (y * scales_ref[1] * scales_ref[0]).astype(o_ref.dtype)
