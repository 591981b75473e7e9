"""Positions are counted in rows, R for each token, so that nothing is divided by R.

Stars: 3
"""


def chunked_prefill_kernel(start_ref, table_ref, q_ref, kv_ref, o_ref, m_ref, l_ref, acc_ref, *, R):
    rows, page = q_ref.shape[0], kv_ref.shape[1]
    j = pl.program_id(2)
    first_row = start_ref[0] * R + pl.program_id(1) * rows

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(j * page * R < first_row + rows)
    def _():
        s = scores(q_ref, kv_ref.at[0])
        row = first_row + jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        key = R * (j * page + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1))
        slot = R * (j * page + jax.lax.broadcasted_iota(jnp.int32, (page, 1), 0))
        v = jnp.where(slot >= first_row + rows, jnp.zeros_like(kv_ref[1]), kv_ref[1])
        attend_to(jnp.where(key > row, MASK_VALUE, s), v, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], acc_ref.shape[1])).astype(o_ref.dtype)
