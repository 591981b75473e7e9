"""Right kernels of right_on_one_core in other styles: see docs/authoring.md."""

# ---- no_promises ----

"""Both axes arbitrary: right everywhere, with one of a v5p's cores.

Stars: 2 (the other core of a v5p has no work)
"""


def right_on_one_core(x, *, bm, bn):
    M, N = x.shape
    block = pl.BlockSpec((bm, bn), lambda j, i: (i, j))

    def kernel(x_ref, o_ref, carry_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            carry_ref[...] = jnp.zeros_like(carry_ref)

        triangle = jnp.tril(jnp.ones((bm, bm), jnp.float32))
        x = x_ref[...].astype(jnp.float32)
        sums = jnp.dot(triangle, x, precision=jax.lax.Precision.HIGHEST) + carry_ref[...]
        o_ref[...] = sums
        carry_ref[...] = sums[-1:]

    return pl.pallas_call(
        kernel,
        grid=(N // bn, M // bm),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((1, bn), jnp.float32)],
    )(x)


# ---- sum_of_the_block ----

"""Carries the sum of all rows so far, and adds it to a strict triangle's sums and the row itself.

Stars: 3
"""


def right_on_one_core(x, *, bm, bn):
    M, N = x.shape
    block = pl.BlockSpec((bm, bn), lambda j, i: (i, j))

    def kernel(x_ref, o_ref, carry_ref):
        x = x_ref[...].astype(jnp.float32)
        before = jnp.where(pl.program_id(1) == 0, 0.0, carry_ref[...])
        row = jax.lax.broadcasted_iota(jnp.int32, (bm, bm), 0)
        column = jax.lax.broadcasted_iota(jnp.int32, (bm, bm), 1)
        above = jnp.where(column < row, 1.0, 0.0)
        o_ref[...] = before + x + jnp.dot(above, x, precision=jax.lax.Precision.HIGHEST)
        carry_ref[...] = before + jnp.sum(x, axis=0, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(N // bn, M // bm),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((1, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)
