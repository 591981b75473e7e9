"""lax.cond inside one pl.when; the mask is added to the scores.

Stars: 3
"""


def causal_flash_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    i, j = pl.program_id(2), pl.program_id(3)
    bq, bkv = q_ref.shape[0], k_ref.shape[0]

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    def full():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    def partial():
        shape = (bq, bkv)
        query = i * bq + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
        key = j * bkv + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
        bias = jnp.where(key > query, MASK_VALUE, 0.0)
        attend(scores(q_ref, k_ref) + bias, v_ref, m_ref, l_ref, acc_ref)

    @pl.when(j * bkv < (i + 1) * bq)
    def _():
        jax.lax.cond((j + 1) * bkv - 1 <= i * bq, full, partial)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], acc_ref.shape[1])).astype(o_ref.dtype)
