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
