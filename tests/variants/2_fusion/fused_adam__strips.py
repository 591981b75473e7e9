"""Works through a block in strips of eight rows, and donates by position.

Stars: 3
"""


def fused_adam_kernel(p_ref, g_ref, m_ref, v_ref, numbers_ref, p_out, m_out, v_out):
    rate, m_weight, v_weight = numbers_ref[0, 0], numbers_ref[0, 1], numbers_ref[0, 2]

    @pl.loop(0, p_ref.shape[0] // 16)
    def _(strip):
        rows = pl.ds(pl.multiple_of(strip * 16, 16), 16)
        g = g_ref[rows].astype(jnp.float32)
        m = B1 * m_ref[rows] + (1 - B1) * g
        v = B2 * v_ref[rows] + (1 - B2) * jnp.square(g)
        change = m / m_weight / (jnp.sqrt(v / v_weight) + EPS)
        p_out[rows], m_out[rows], v_out[rows] = p_ref[rows] - rate * change, m, v
