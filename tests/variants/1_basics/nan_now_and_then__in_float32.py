"""Selects in float32, with the limit counted from the block's first element.

Stars: 3
"""


def nan_now_and_then_kernel(x_ref, w_ref, o_ref, acc_ref, *, n):
    k = pl.program_id(2)
    left = n - k * x_ref.shape[1]

    def kept(ref, axis):
        place = jax.lax.broadcasted_iota(jnp.int32, ref.shape, axis)
        return jnp.where(place < left, ref[...].astype(jnp.float32), 0.0).astype(ref.dtype)

    product = jnp.dot(kept(x_ref, 1), kept(w_ref, 0), preferred_element_type=jnp.float32)
    acc_ref[...] = jnp.where(k == 0, 0.0, acc_ref[...]) + product

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...]
