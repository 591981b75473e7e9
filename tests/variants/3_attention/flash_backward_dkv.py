"""Right kernels of flash_backward_dkv in other styles: see docs/authoring.md."""

# ---- scaled_queries ----

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


# ---- scores_by_rows ----

"""Scores with queries along sublanes, summed over their first dimension.

Stars: 3
"""


def flash_backward_dkv_kernel(
    q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dk_ref, dv_ref, dk_acc, dv_acc
):
    scale = q_ref.shape[1] ** -0.5
    i, last = pl.program_id(3), pl.num_programs(3) - 1

    @pl.when(i == 0)
    def _():
        dk_acc[...] = jnp.zeros_like(dk_acc)
        dv_acc[...] = jnp.zeros_like(dv_acc)

    q, do = q_ref[...], do_ref[...]
    s = jnp.einsum("th,sh->ts", q, k_ref[...], preferred_element_type=jnp.float32) * scale
    p = jnp.exp(s - lse_ref[0, :][:, None])
    dp = jnp.einsum("th,sh->ts", do, v_ref[...], preferred_element_type=jnp.float32)
    ds = p * (dp - delta_ref[0, :][:, None]) * scale
    rows = (((0,), (0,)), ((), ()))
    dv_acc[...] += jax.lax.dot_general(
        p.astype(do.dtype), do, rows, preferred_element_type=jnp.float32
    )
    dk_acc[...] += jax.lax.dot_general(
        ds.astype(q.dtype), q, rows, preferred_element_type=jnp.float32
    )

    @pl.when(i == last)
    def _():
        dk_ref[...] = dk_acc[...].astype(dk_ref.dtype)
        dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)
