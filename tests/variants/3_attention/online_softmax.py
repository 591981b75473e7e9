"""Right kernels of online_softmax in other styles: see docs/authoring.md."""

# ---- base_two ----

"""Counts in powers of two throughout, and starts from a finite minimum.

Stars: 3
"""

LOG2_E = 1.4426950408889634


def online_softmax_kernel(x_ref, o_ref, m_ref, l_ref):
    stage, j = pl.program_id(1), pl.program_id(2)
    x = x_ref[...].astype(jnp.float32) * LOG2_E

    @pl.when((stage == 0) & (j == 0))
    def _():
        m_ref[...] = jnp.full_like(m_ref, jnp.finfo(jnp.float32).min)
        l_ref[...] = jnp.zeros_like(l_ref)

    @pl.when(stage == 0)
    def _():
        m_prev, l_prev = m_ref[...], l_ref[...]
        m_next = jnp.maximum(m_prev, jnp.max(x, axis=1, keepdims=True))
        l_ref[...] = l_prev * jnp.exp2(m_prev - m_next) + jnp.sum(
            jnp.exp2(x - m_next), axis=1, keepdims=True
        )
        m_ref[...] = m_next

    @pl.when(stage == 1)
    def _():
        o_ref[...] = (jnp.exp2(x - m_ref[...]) / l_ref[...]).astype(o_ref.dtype)


# ---- merge ----

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


# ---- where ----

"""No branch for the first step: where gives the statistics to begin with.

Stars: 3
"""


def online_softmax_kernel(x_ref, o_ref, m_ref, l_ref):
    stage, j = pl.program_id(1), pl.program_id(2)
    x = x_ref[...].astype(jnp.float32)

    @pl.when(stage == 0)
    def _():
        first = j == 0
        m_prev = jnp.where(first, -jnp.inf, m_ref[...])
        l_prev = jnp.where(first, 0.0, l_ref[...])
        m_next = jnp.maximum(m_prev, x.max(1, keepdims=True))
        l_ref[...] = l_prev * jnp.exp(m_prev - m_next) + jnp.exp(x - m_next).sum(1, keepdims=True)
        m_ref[...] = m_next

    @pl.when(stage == 1)
    def _():
        o_ref[...] = jnp.exp(x - m_ref[...] - jnp.log(l_ref[...])).astype(o_ref.dtype)
