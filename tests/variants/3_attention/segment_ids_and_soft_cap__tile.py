"""Makes the column with tile and swapaxes, caps with a product, and masks with lax.select.

Stars: 3
"""


def segment_ids_and_soft_cap_kernel(
    q_ref, k_ref, v_ref, q_ids_ref, kv_ids_ref, o_ref, ids_ref, m_ref, l_ref, acc_ref, *, cap
):
    bq, bkv = q_ref.shape[0], k_ref.shape[0]
    j = pl.program_id(3)

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)
        ids_ref[...] = jnp.swapaxes(jnp.tile(q_ids_ref[...], (LANES, 1)), 0, 1)

    s = jnp.tanh(scores(q_ref, k_ref) * (1 / cap)) * cap
    kv_ids = jnp.broadcast_to(kv_ids_ref[...], (bq, bkv))
    other = widened(ids_ref[...], bkv) != kv_ids
    s = jax.lax.select(other, jnp.full_like(s, MASK_VALUE), s)
    attend(s, v_ref, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)
