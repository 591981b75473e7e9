"""Scales q once in float32, for the scores and for dk.

Stars: 3
"""


def flash_backward_dkv_kernel(
    q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dk_ref, dv_ref, dk_acc, dv_acc
):
    i = pl.program_id(3)
    scale = q_ref.shape[1] ** -0.5
    first = i == 0
    do = do_ref[:, :]
    s_t = jnp.dot(k_ref[:, :], q_ref[:, :].T, preferred_element_type=jnp.float32)
    p_t = jnp.exp(scale * s_t - lse_ref[:, :])
    dp_t = jnp.dot(v_ref[:, :], do.T, preferred_element_type=jnp.float32)
    ds_t = p_t * (dp_t - delta_ref[:, :])
    dv_acc[:, :] = jnp.where(first, 0, dv_acc[:, :]) + jnp.dot(
        p_t.astype(do.dtype), do, preferred_element_type=jnp.float32
    )
    dk_acc[:, :] = jnp.where(first, 0, dk_acc[:, :]) + jnp.dot(
        ds_t.astype(q_ref.dtype), q_ref[:, :], preferred_element_type=jnp.float32
    )

    @pl.when(i == pl.num_programs(3) - 1)
    def _():
        dk_ref[:, :] = (dk_acc[:, :] * scale).astype(dk_ref.dtype)
        dv_ref[:, :] = dv_acc[:, :].astype(dv_ref.dtype)
