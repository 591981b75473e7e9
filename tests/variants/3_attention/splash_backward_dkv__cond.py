"""One condition for the block and lax.cond for its mask; stores the sums scaled.

Stars: 3
"""


def splash_backward_dkv_kernel(
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
    dk_ref,
    dv_ref,
    dk_acc,
    dv_acc,
):
    refs = (q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, mask_ref, dk_acc, dv_acc)
    j, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[j, step]

    @pl.when(step == 0)
    def _():
        dk_acc[:] = jnp.zeros(dk_acc.shape, jnp.float32)
        dv_acc[:] = jnp.zeros(dv_acc.shape, jnp.float32)

    @pl.when(kind != 0)
    def _():
        jax.lax.cond(kind == 2, lambda: add_block(False, *refs), lambda: add_block(True, *refs))

    @pl.when(step + 1 == pl.num_programs(3))
    def _():
        dv_ref[:] = dv_acc[:].astype(dv_ref.dtype)
        dk_ref[:] = (dk_acc[:] / q_ref.shape[1] ** 0.5).astype(dk_ref.dtype)
