"""Right kernels of cumulative_sum in other styles: see docs/authoring.md."""

# ---- sum_of_the_block ----

"""Carries the sum of the block along the lanes, and masks in the last step alone.

Stars: 3
"""


def cumulative_sum_kernel(x_ref, o_ref, carry_ref, *, N):
    j, bn = pl.program_id(1), x_ref.shape[1]
    triangle = jnp.triu(jnp.ones((bn, bn), jnp.float32))

    @pl.when(j == 0)
    def _():
        carry_ref[...] = jnp.zeros_like(carry_ref)

    def add(x):
        highest = jax.lax.Precision.HIGHEST
        o_ref[...] = jnp.dot(x, triangle, precision=highest) + carry_ref[...]
        carry_ref[...] += jnp.sum(x, axis=1, keepdims=True)

    last = pl.num_programs(1) - 1

    @pl.when(j < last)
    def _():
        add(x_ref[...])

    @pl.when(j == last)
    def _():
        column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        add(jnp.where(column < N - j * bn, x_ref[...], 0))


# ---- three_parts ----

"""Splits x into three parts of bfloat16 itself: three passes, for the ones have one part alone.

Stars: 3
"""


def cumulative_sum_kernel(x_ref, o_ref, carry_ref, *, N):
    j, (bm, bn) = pl.program_id(1), x_ref.shape

    @pl.when(j == 0)
    def _():
        carry_ref[...] = jnp.zeros_like(carry_ref)

    k = jax.lax.broadcasted_iota(jnp.int32, (bn, bn), 0)
    n = jax.lax.broadcasted_iota(jnp.int32, (bn, bn), 1)
    ones = (k <= n).astype(jnp.float32).astype(jnp.bfloat16)
    column = jax.lax.broadcasted_iota(jnp.int32, (bm, bn), 1)
    rest = jnp.where(column < N - j * bn, x_ref[...], 0)
    sums = jnp.zeros((bm, bn), jnp.float32)
    for _ in range(3):
        part = rest.astype(jnp.bfloat16)
        sums += jnp.dot(part, ones, preferred_element_type=jnp.float32)
        rest -= part.astype(jnp.float32)
    o_ref[...] = sums + carry_ref[...]
    carry_ref[...] += sums[:, -1:]
