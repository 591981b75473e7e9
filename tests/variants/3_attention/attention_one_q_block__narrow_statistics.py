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
