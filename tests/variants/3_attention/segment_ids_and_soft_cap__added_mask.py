"""Turns the row into a column by indexing with None, and adds the mask to the capped scores.

Stars: 3
"""


def segment_ids_and_soft_cap_kernel(
    q_ref, k_ref, v_ref, q_ids_ref, kv_ids_ref, o_ref, ids_ref, m_ref, l_ref, acc_ref, *, cap
):
    bkv = k_ref.shape[0]
    j = pl.program_id(3)

    @pl.when(j == 0)
    def _():
        ids_ref[...] = jnp.broadcast_to(q_ids_ref[0, :][:, None], ids_ref.shape)
        clear(m_ref, l_ref, acc_ref)

    same = widened(ids_ref[...], bkv) == kv_ids_ref[...]
    s = cap * jnp.tanh(scores(q_ref, k_ref) / cap) + jnp.where(same, 0, MASK_VALUE)
    attend(s, v_ref, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)
