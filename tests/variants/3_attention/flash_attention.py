"""Right kernels of flash_attention in other styles: see docs/authoring.md."""

# ---- blocks_of_one ----

"""Blocks that keep the two leading dimensions of size 1, and a kernel that indexes them away.

Stars: 3
"""


def flash_attention(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    _, _, S, _ = k.shape

    def kernel(q_ref, k_ref, v_ref, o_ref, *scratch):
        head = (0, 0)
        flash_attention_kernel(
            q_ref.at[head], k_ref.at[head], v_ref.at[head], o_ref.at[head], *scratch
        )

    q_spec = pl.BlockSpec((1, 1, bq, H), lambda b, n, i, j: (b, n, i, 0))
    kv_spec = pl.BlockSpec((1, 1, bkv, H), lambda b, n, i, j: (b, n, j, 0))
    return pl.pallas_call(
        kernel,
        grid=(B, N, T // bq, S // bkv),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct((B, N, T, H), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(q, k, v)


# ---- grid_spec ----

"""A GridSpec with index maps that have names, and batch and heads in each other's place.

Stars: 3
"""


def flash_attention(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    S = k.shape[2]

    def queries(n, b, i, j):
        return b, n, i, 0

    def keys(n, b, i, j):
        return b, n, j, 0

    return pl.pallas_call(
        flash_attention_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=0,
            grid=(N, B, pl.cdiv(T, bq), pl.cdiv(S, bkv)),
            in_specs=[
                pl.BlockSpec((None, None, bq, H), queries),
                pl.BlockSpec((None, None, bkv, H), keys),
                pl.BlockSpec((None, None, bkv, H), keys),
            ],
            out_specs=pl.BlockSpec((None, None, bq, H), queries),
            scratch_shapes=[
                *[pltpu.VMEM((bq, LANES), jnp.float32) for _ in range(2)],
                pltpu.VMEM((bq, H), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(q, k, v)


# ---- joined_heads ----

"""Joins batch and heads to one axis, which is no work: a reshape of leading dimensions.

Stars: 3
"""


def flash_attention_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(2)
    bkv, H = k_ref.shape

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    s = jnp.einsum("th,sh->ts", q_ref[...], k_ref[...], preferred_element_type=jnp.float32)
    s = s * H**-0.5
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
    alpha = jnp.exp(m_prev - m_next)
    p = jnp.exp(s - widened(m_next, bkv))
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
    pv = jnp.dot(p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
    acc_ref[...] = widened(alpha, H) * acc_ref[...] + pv

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)


def flash_attention(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    S = k.shape[2]
    q_spec = pl.BlockSpec((None, bq, H), lambda bn, i, j: (bn, i, 0))
    kv_spec = pl.BlockSpec((None, bkv, H), lambda bn, i, j: (bn, j, 0))
    o = pl.pallas_call(
        flash_attention_kernel,
        grid=(B * N, T // bq, S // bkv),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct((B * N, T, H), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(*(x.reshape(B * N, -1, H) for x in (q, k, v)))
    return o.reshape(q.shape)
