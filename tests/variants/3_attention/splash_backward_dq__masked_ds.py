"""Masks ds instead of the scores; lax.cond chooses; the scale is part of what is summed.

Stars: 3
"""


def splash_backward_dq_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    do_ref,
    lse_ref,
    delta_ref,
    mask_ref,
    dq_ref,
    acc_ref,
):
    i, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, step]
    scale = q_ref.shape[1] ** -0.5

    def of_block():
        s = jax.lax.dot_general(
            q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        dp = dot(do_ref[...], v_ref[...].T)
        return jnp.exp(scale * s - lse_ref[...].T) * scale * (dp - delta_ref[...].T)

    def add(ds):
        acc_ref[...] += dot(ds.astype(k_ref.dtype), k_ref[...])

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(kind != 0)
    def _():
        jax.lax.cond(
            kind == 1,
            lambda: add(jnp.where(mask_ref[...] != 0, of_block(), 0)),
            lambda: add(of_block()),
        )

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = acc_ref[...].astype(dq_ref.dtype)
