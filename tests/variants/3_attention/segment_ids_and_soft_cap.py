"""Right kernels of segment_ids_and_soft_cap in other styles: see docs/authoring.md."""

# ---- added_mask ----

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


# ---- tile ----

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
