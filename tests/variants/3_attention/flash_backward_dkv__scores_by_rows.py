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
