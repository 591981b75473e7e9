"""Multiplies the column of x's scales by each of w's, and scales 128 columns of the sums by it.

The XLU spreads a column for each 128 columns instead of one.

Stars: 2
"""


def block_scaled_matmul_kernel(w_scales_ref, x_ref, w_ref, x_scales_ref, o_ref):
    j, k = pl.program_id(1), pl.program_id(2)
    groups, columns = x_ref.shape[1] // 128, o_ref.shape[1] // 128

    @pl.when(k == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    turned = jnp.swapaxes(x_scales_ref[...], 0, 1)
    for group in range(groups):
        inside = pl.ds(group * 128, 128)
        sums = jnp.dot(x_ref[:, inside], w_ref[inside, :], preferred_element_type=jnp.float32)
        for column in range(columns):
            here = slice(column * 128, (column + 1) * 128)
            of_w = w_scales_ref[k * groups + group, j * columns + column]
            o_ref[:, here] += sums[:, here] * (turned[:, group][:, None] * of_w)
