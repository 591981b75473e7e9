"""Computes the pair of the block alone, and merges the two pairs.

Stars: 3
"""


def merged(m_one, l_one, m_other, l_other):
    m = jnp.maximum(m_one, m_other)
    return m, jnp.exp(m_one - m) * l_one + jnp.exp(m_other - m) * l_other


def online_softmax_kernel(x_ref, o_ref, m_ref, l_ref):
    stage, j = pl.program_id(1), pl.program_id(2)

    @pl.when((stage == 0) & (j == 0))
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)

    @pl.when(stage == 0)
    def _():
        x = x_ref[...].astype(jnp.float32)
        m_block = jnp.max(x, axis=1, keepdims=True)
        l_block = jnp.sum(jnp.exp(x - m_block), axis=1, keepdims=True)
        m_ref[...], l_ref[...] = merged(m_ref[...], l_ref[...], m_block, l_block)

    @pl.when(stage == 1)
    def _():
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = (jnp.exp(x - m_ref[...]) / l_ref[...]).astype(o_ref.dtype)
