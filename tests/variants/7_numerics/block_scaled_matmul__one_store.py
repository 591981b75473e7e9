"""Adds up the block's groups in a value, and makes the row of scales by comparing lanes.

Stars: 3
"""


def block_scaled_matmul_kernel(w_scales_ref, x_ref, w_ref, x_scales_ref, o_ref):
    j, k = pl.program_id(1), pl.program_id(2)
    groups, columns = x_ref.shape[1] // GROUP, o_ref.shape[1] // GROUP
    lane = jax.lax.broadcasted_iota(jnp.int32, (1, o_ref.shape[1]), 1)
    turned = x_scales_ref[...].T
    total = jnp.where(k == 0, 0.0, o_ref[...])
    for group in range(groups):
        row = jnp.zeros((1, o_ref.shape[1]), jnp.float32)
        for column in range(columns):
            of_w = w_scales_ref[k * groups + group, j * columns + column]
            row = jnp.where(lane // GROUP == column, of_w, row)
        inside = pl.ds(group * GROUP, GROUP)
        sums = jnp.dot(
            x_ref[:, inside].astype(jnp.bfloat16),
            w_ref[inside, :].astype(jnp.bfloat16),
            preferred_element_type=jnp.float32,
        )
        total += sums * (turned[:, group : group + 1] * row)
    o_ref[...] = total
