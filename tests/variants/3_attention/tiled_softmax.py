"""Right kernels of tiled_softmax in other styles: see docs/authoring.md."""

# ---- exponent ----

"""Turns the two statistics into one after the second pass: x - (m + log l).

Stars: 3
"""


def tiled_softmax_kernel(x_ref, o_ref, m_ref, l_ref):
    stage, j, last = pl.program_id(1), pl.program_id(2), pl.num_programs(2) - 1

    @pl.when(stage + j == 0)
    def _():
        m_ref[:] = jnp.full(m_ref.shape, -jnp.inf)
        l_ref[:] = jnp.zeros(l_ref.shape)

    x = x_ref[:].astype(jnp.float32)

    @pl.when(stage == 0)
    def _():
        m_ref[:] = jnp.maximum(m_ref[:], x.max(axis=1, keepdims=True))

    @pl.when(stage == 1)
    def _():
        total = l_ref[:] + jnp.exp(x - m_ref[:]).sum(axis=1, keepdims=True)
        l_ref[:] = jnp.where(j == last, jnp.log(total), total)

    @pl.when(stage == 2)
    def _():
        o_ref[:] = jnp.exp(x - m_ref[:] - l_ref[:]).astype(o_ref.dtype)


# ---- switch ----

"""One branch for each stage by lax.switch; the first steps choose with where.

Stars: 3
"""


def tiled_softmax_kernel(x_ref, o_ref, m_ref, l_ref):
    stage, j = pl.program_id(1), pl.program_id(2)
    x = x_ref[...].astype(jnp.float32)

    def maximum():
        before = jnp.where(j == 0, -jnp.inf, m_ref[...])
        m_ref[...] = jax.lax.max(before, jnp.max(x, axis=1, keepdims=True))

    def total():
        before = jnp.where(j == 0, 0, l_ref[...])
        l_ref[...] = before + jnp.sum(jnp.exp(x - m_ref[...]), axis=1, keepdims=True)

    def result():
        o_ref[...] = (jnp.exp(x - m_ref[...]) * (1 / l_ref[...])).astype(o_ref.dtype)

    jax.lax.switch(stage, [maximum, total, result])


# ---- wide_statistics ----

"""Keeps the statistics in 128 equal lanes, as attention kernels do.

Stars: 3
"""


def tiled_softmax(x, *, bm, bn):
    M, N = x.shape

    def kernel(x_ref, o_ref, m_ref, l_ref):
        stage, j = pl.program_id(1), pl.program_id(2)

        @pl.when((stage == 0) & (j == 0))
        def _():
            m_ref[...] = jnp.full(m_ref.shape, -jnp.inf, jnp.float32)
            l_ref[...] = jnp.zeros(l_ref.shape, jnp.float32)

        x = x_ref[...].astype(jnp.float32)

        @pl.when(stage == 0)
        def _():
            m_ref[...] = jnp.maximum(m_ref[...], jnp.max(x, axis=1, keepdims=True))

        @pl.when(stage == 1)
        def _():
            p = jnp.exp(x - jnp.tile(m_ref[...], (1, bn // 128)))
            l_ref[...] += jnp.sum(p, axis=1, keepdims=True)

        @pl.when(stage == 2)
        def _():
            m, total = (jnp.tile(ref[...], (1, bn // 128)) for ref in (m_ref, l_ref))
            o_ref[...] = (jnp.exp(x - m) / total).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        grid=(M // bm, 3, N // bn),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, stage, j: (i, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, stage, j: (i, jnp.where(stage == 2, j, 0))),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, 128), jnp.float32)] * 2,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
    )(x)


# ---- switch_over_stages ----

"""Chooses a stage's work by lax.switch, and multiplies by a reciprocal.

Stars: 3
"""


def tiled_softmax_kernel(x_ref, o_ref, m_ref, l_ref):
    stage, j = pl.program_id(1), pl.program_id(2)

    @pl.when((stage == 0) & (j == 0))
    def _():
        m_ref[...] = jnp.full(m_ref.shape, -jnp.inf, m_ref.dtype)
        l_ref[...] = jnp.zeros(l_ref.shape, l_ref.dtype)

    x = x_ref[...].astype(jnp.float32)

    def largest():
        m_ref[...] = jnp.maximum(m_ref[...], x.max(axis=1, keepdims=True))

    def summed():
        l_ref[...] += jnp.exp(x - m_ref[...]).sum(axis=1, keepdims=True)

    def written():
        o_ref[...] = (jnp.exp(x - m_ref[...]) * pl.reciprocal(l_ref[...])).astype(o_ref.dtype)

    jax.lax.switch(stage, [largest, summed, written])
