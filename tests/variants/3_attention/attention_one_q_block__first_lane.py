"""Powers of two, the statistics broadcast from one lane, a reciprocal at the end.

Stars: 2, since in every step statistics of one lane are spread over all lanes again.
"""

LOG2_E = 1.4426950408889634


def attention_one_q_block_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(0)
    scale = k_ref.shape[1] ** -0.5 * LOG2_E

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full(m_ref.shape, -jnp.inf, m_ref.dtype)
        l_ref[...] = jnp.zeros(l_ref.shape, l_ref.dtype)
        acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

    s = scale * jnp.einsum("th,sh->ts", q_ref[...], k_ref[...], preferred_element_type=jnp.float32)
    m_prev, l_prev = m_ref[:, :1], l_ref[:, :1]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
    alpha = jnp.exp2(m_prev - m_next)
    p = jnp.exp2(s - m_next)
    l_next = alpha * l_prev + jnp.sum(p, axis=1, keepdims=True)
    m_ref[...] = jnp.broadcast_to(m_next, m_ref.shape)
    l_ref[...] = jnp.broadcast_to(l_next, l_ref.shape)
    acc_ref[...] = acc_ref[...] * alpha + jax.lax.dot(
        p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
    )

    @pl.when(j == pl.num_programs(0) - 1)
    def _():
        o_ref[...] = (acc_ref[...] * (1.0 / l_ref[:, :1])).astype(o_ref.dtype)
