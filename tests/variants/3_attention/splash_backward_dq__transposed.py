"""Scores with keys first, as in kata 16: lse and delta as rows, masks turned in the kernel.

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
    last_of_both = (((1,), (1,)), ((), ()))
    first_of_both = (((0,), (0,)), ((), ()))

    def add_block(masked):
        s = dot(k_ref[...], q_ref[...], last_of_both) * scale
        if masked:
            s = jnp.where(mask_ref[...].astype(jnp.float32).T != 0, s, MASK_VALUE)
        p = jnp.exp(s - lse_ref[...])
        ds = p * (dot(v_ref[...], do_ref[...], last_of_both) - delta_ref[...])
        acc_ref[...] += dot(ds.astype(k_ref.dtype), k_ref[...], first_of_both)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    for which in (1, 2):
        pl.when(kind == which)(lambda which=which: add_block(which == 1))

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = (acc_ref[...] * scale).astype(dq_ref.dtype)
