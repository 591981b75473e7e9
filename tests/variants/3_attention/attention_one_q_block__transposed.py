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
