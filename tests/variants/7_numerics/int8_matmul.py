"""Right kernels of int8_matmul in other styles: see docs/authoring.md."""

# ---- scales_first ----

"""Both scales are multiplied first; the zero points' part is where the sums begin.

Stars: 3
"""


def int8_matmul_kernel(x_ref, w_ref, zero_ref, w_sum_ref, x_scale_ref, w_scale_ref, o_ref, acc_ref):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = -zero_ref[...] * w_sum_ref[...]

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.int32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(jnp.float32) * (w_scale_ref[...] * x_scale_ref[...])


# ---- two_strips ----

"""Two products of half a block of K in each step, from slices of the Refs.

Stars: 3
"""


def int8_matmul_kernel(x_ref, w_ref, zero_ref, w_sum_ref, x_scale_ref, w_scale_ref, o_ref, acc_ref):
    k, half = pl.program_id(2), max(x_ref.shape[1] // 2, 128)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    for start in range(0, x_ref.shape[1], half):
        x, w = x_ref[:, start : start + half], w_ref[start : start + half]
        acc_ref[...] += jax.lax.dot(x, w, preferred_element_type=jnp.int32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        total = acc_ref[...] - w_sum_ref[...] * zero_ref[...]
        o_ref[...] = total * w_scale_ref[...] * x_scale_ref[...]
