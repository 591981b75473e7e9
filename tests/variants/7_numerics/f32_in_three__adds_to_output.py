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
