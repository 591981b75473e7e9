"""Right kernels of fused_adam in other styles: see docs/authoring.md."""

# ---- prefetched_numbers ----

"""Has the three numbers as scalar prefetch, which shifts the inputs that are aliased by one.

Stars: 3
"""


def fused_adam_kernel(numbers_ref, p_ref, g_ref, m_ref, v_ref, p_out, m_out, v_out):
    g = g_ref[...].astype(jnp.float32)
    m_out[...] = m = m_ref[...] + (1 - B1) * (g - m_ref[...])
    v_out[...] = v = v_ref[...] + (1 - B2) * (g * g - v_ref[...])
    root = jnp.sqrt(v * (1 / numbers_ref[2]))
    p_out[...] = p_ref[...] - numbers_ref[0] / numbers_ref[1] * m / (root + EPS)


@functools.partial(jax.jit, static_argnames=("bm", "bn"), donate_argnames=("p", "m", "v"))
def fused_adam(p, g, m, v, numbers, *, bm, bn):
    block = pl.BlockSpec((bm, bn), lambda i, j, _: (i, j))
    return pl.pallas_call(
        fused_adam_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(p.shape[0] // bm, p.shape[1] // bn),
            in_specs=[block] * 4,
            out_specs=[block] * 3,
        ),
        out_shape=[p, m, v],
        input_output_aliases={1: 0, 3: 1, 4: 2},
    )(numbers.reshape(3), p, g, m, v)


# ---- strips ----

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
