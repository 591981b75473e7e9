"""Right kernels of f32_in_three in other styles: see docs/authoring.md."""

# ---- adds_to_output ----

"""Each product is added to the output's block by itself, the largest first; hi + lo of y is joined.

Stars: 3
"""


def f32_in_three_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    def part(value):
        return value.astype(jnp.bfloat16)

    x_hi, y_hi = part(x_ref[...]), part(y_ref[...])
    x_lo, y_lo = part(x_ref[...] - x_hi), part(y_ref[...] - y_hi)
    for left, right in ((x_hi, y_hi), (x_hi, y_lo), (x_lo, y_hi)):
        o_ref[...] += jax.lax.dot(left, right, preferred_element_type=jnp.float32)


# ---- one_long_product ----

"""One product of parts that lie side by side along K, three times as long.

Stars: 3
"""


def f32_in_three_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, y = x_ref[...], y_ref[...]
    x_hi, y_hi = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
    x_lo, y_lo = (x - x_hi).astype(jnp.bfloat16), (y - y_hi).astype(jnp.bfloat16)
    left = jnp.concatenate([x_hi, x_hi, x_lo], axis=1)
    right = jnp.concatenate([y_lo, y_hi, y_hi], axis=0)
    acc_ref[...] += jnp.dot(left, right, preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...]
