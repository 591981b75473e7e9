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
