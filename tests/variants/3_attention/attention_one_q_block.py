"""Right kernels of attention_one_q_block in other styles: see docs/authoring.md."""

# ---- exp2 ----

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


# ---- first_lane ----

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


# ---- narrow_statistics ----

"""Statistics of one lane, (T, 1), as the textbook has them; scales q first.

Stars: 2, since in every step statistics of one lane are spread over all lanes again.
"""


def attention_one_q_block(q, k, v, *, bkv):
    T, H = q.shape
    S, _ = k.shape

    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        j = pl.program_id(0)

        @pl.when(j == 0)
        def _():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        q = q_ref[...].astype(jnp.float32) * H**-0.5
        s = jnp.dot(q, k_ref[...].astype(jnp.float32).T, preferred_element_type=jnp.float32)
        m = jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
        alpha, p = jnp.exp(m_ref[...] - m), jnp.exp(s - m)
        l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
        acc_ref[...] = alpha * acc_ref[...] + jnp.dot(
            p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
        )
        m_ref[...] = m

        @pl.when(j == pl.num_programs(0) - 1)
        def _():
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        grid=(S // bkv,),
        in_specs=[
            pl.BlockSpec((T, H), lambda j: (0, 0)),
            pl.BlockSpec((bkv, H), lambda j: (j, 0)),
            pl.BlockSpec((bkv, H), lambda j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((T, H), lambda j: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((T, H), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((T, 1), jnp.float32),
            pltpu.VMEM((T, 1), jnp.float32),
            pltpu.VMEM((T, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
    )(q, k, v)


# ---- transposed ----

"""Scores with keys along sublanes, so that the statistics are rows; transposes once, at the end.

Stars: 2, since the transposed weights have to be turned for the second product.
"""


def attention_one_q_block(q, k, v, *, bkv):
    (T, H), S = q.shape, k.shape[0]

    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        j = pl.program_id(0)

        @pl.when(j == 0)
        def _():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        s_t = jnp.einsum("sh,th->st", k_ref[...], q_ref[...], preferred_element_type=jnp.float32)
        s_t = s_t * H**-0.5
        m = jnp.maximum(m_ref[...], jnp.max(s_t, axis=0, keepdims=True))
        alpha, p_t = jnp.exp(m_ref[...] - m), jnp.exp(s_t - m)
        m_ref[...] = m
        l_ref[...] = alpha * l_ref[...] + jnp.sum(p_t, axis=0, keepdims=True)
        acc_ref[...] = alpha * acc_ref[...] + jnp.einsum(
            "sh,st->ht", v_ref[...], p_t.astype(v_ref.dtype), preferred_element_type=jnp.float32
        )

        @pl.when(j == pl.num_programs(0) - 1)
        def _():
            o_ref[...] = (acc_ref[...] / l_ref[...]).T.astype(o_ref.dtype)

    keys = pl.BlockSpec((bkv, H), lambda j: (j, 0))
    queries = pl.BlockSpec((T, H), lambda j: (0, 0))
    return pl.pallas_call(
        kernel,
        grid=(S // bkv,),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        out_shape=jax.ShapeDtypeStruct((T, H), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((1, T), jnp.float32),
            pltpu.VMEM((1, T), jnp.float32),
            pltpu.VMEM((H, T), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
    )(q, k, v)
