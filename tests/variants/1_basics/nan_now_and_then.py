"""Right kernels of nan_now_and_then in other styles: see docs/authoring.md."""

# ---- in_float32 ----

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


# ---- last_block_only ----

"""Selects in the last step alone, with masks of one row and one column.

Stars: 3
"""


def nan_now_and_then_kernel(x_ref, w_ref, o_ref, acc_ref, *, n):
    k, last = pl.program_id(2), pl.num_programs(2) - 1
    bk = x_ref.shape[1]

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(k < last)
    def _():
        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == last)
    def _():
        left = n - k * bk
        inside = jax.lax.broadcasted_iota(jnp.int32, (1, bk), 1) < left
        below = jax.lax.broadcasted_iota(jnp.int32, (bk, 1), 0) < left
        x = jnp.where(inside, x_ref[...], 0)
        w = jnp.where(below, w_ref[...], 0)
        o_ref[...] = acc_ref[...] + jnp.dot(x, w, preferred_element_type=jnp.float32)
