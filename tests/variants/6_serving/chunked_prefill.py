"""Right kernels of chunked_prefill in other styles: see docs/authoring.md."""

# ---- full_pages_apart ----

"""Pages that all queries of the block see have a branch of their own, without a mask.

Stars: 3
"""


def chunked_prefill_kernel(start_ref, table_ref, q_ref, kv_ref, o_ref, m_ref, l_ref, acc_ref, *, R):
    page = kv_ref.shape[1]
    i, j = pl.program_id(1), pl.program_id(2)
    queries = q_ref.shape[0] // R
    before = start_ref[0] + i * queries - j * page

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    def whole():
        attend_to(scores(q_ref, kv_ref.at[0]), kv_ref[1], m_ref, l_ref, acc_ref)

    def part():
        s = scores(q_ref, kv_ref.at[0])
        row = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        column = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)
        s = jnp.where(before + row // R >= column, s, MASK_VALUE)
        slot = jax.lax.broadcasted_iota(jnp.int32, kv_ref.shape[1:], 0)
        v = jnp.where(slot < before + queries, kv_ref[1], 0)
        attend_to(s, v, m_ref, l_ref, acc_ref)

    @pl.when(before + queries > 0)
    def _():
        jax.lax.cond(before >= page - 1, whole, part)

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], acc_ref.shape[1])).astype(o_ref.dtype)


# ---- no_division ----

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
