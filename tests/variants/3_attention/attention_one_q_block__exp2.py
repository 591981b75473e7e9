"""Powers of two, with log2(e) in the scale, statistics in 128 lanes, a reciprocal at the end.

Stars: 3
"""

LOG2_E = 1.4426950408889634


def attention_one_q_block_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(0)
    bkv, H = k_ref.shape
    s = jnp.einsum("th,sh->ts", q_ref[...], k_ref[...], preferred_element_type=jnp.float32)
    s = s * (H**-0.5 * LOG2_E)
    top = jnp.max(s, axis=1, keepdims=True)

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full(m_ref.shape, -jnp.inf, m_ref.dtype)
        l_ref[...] = jnp.zeros(l_ref.shape, l_ref.dtype)
        acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

    m_prev = m_ref[...]
    m_next = jax.lax.max(m_prev, jnp.broadcast_to(top, m_prev.shape))
    alpha = jnp.exp2(m_prev - m_next)
    p = jnp.exp2(s - widened(m_next, bkv))
    m_ref[...] = m_next
    l_ref[...] = l_ref[...] * alpha + p.sum(axis=1, keepdims=True)
    acc_ref[...] = acc_ref[...] * widened(alpha, H) + jax.lax.dot(
        p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
    )

    @pl.when(j == pl.num_programs(0) - 1)
    def _():
        o_ref[...] = (acc_ref[...] * widened(1.0 / l_ref[...], H)).astype(o_ref.dtype)
