"""Right kernels of grouped_query_attention in other styles: see docs/authoring.md."""

# ---- div ----

"""lax.div in an index map with a name, and a GridSpec.

Stars: 3
"""


def grouped_query_attention(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    K, S = k.shape[1:3]

    def keys(b, n, i, j):
        return b, jax.lax.div(n, N // K), j, 0

    q_spec = pl.BlockSpec((None, None, bq, H), index_map=lambda b, n, i, _: (b, n, i, 0))
    return pl.pallas_call(
        grouped_query_attention_kernel,
        grid_spec=pl.GridSpec(
            grid=(B, N, T // bq, S // bkv),
            in_specs=[
                q_spec,
                pl.BlockSpec((None, None, bkv, H), keys),
                pl.BlockSpec((None, None, bkv, H), keys),
            ],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((bq, LANES), jnp.float32),
                pltpu.VMEM((bq, LANES), jnp.float32),
                pltpu.VMEM((bq, H), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(q, k, v)


# ---- five_axes ----

"""Splits the heads of q into groups, which is no work, and has a grid axis for each.

Stars: 3
"""


def grouped_query_attention(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    _, K, S, _ = k.shape
    group = N // K

    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        j = pl.program_id(4)

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

        @pl.when(j == pl.num_programs(4) - 1)
        def _():
            o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)

    q_spec = pl.BlockSpec((None, None, None, bq, H), lambda b, n, g, i, j: (b, n, g, i, 0))
    kv_spec = pl.BlockSpec((None, None, bkv, H), lambda b, n, g, i, j: (b, n, j, 0))
    o = pl.pallas_call(
        kernel,
        grid=(B, K, group, T // bq, S // bkv),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct((B, K, group, T, H), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",) * 4 + ("arbitrary",)
        ),
    )(q.reshape(B, K, group, T, H), k, v)
    return o.reshape(B, N, T, H)


# ---- table_of_heads ----

"""Heads of keys come from a table in SMEM, which is a constant: PrefetchScalarGridSpec.

Stars: 3
"""

import numpy as np


def grouped_query_attention(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    heads = np.repeat(np.arange(K, dtype=np.int32), N // K)
    q_spec = pl.BlockSpec(
        (pl.Squeezed(), pl.Squeezed(), bq, H), lambda b, n, i, j, heads: (b, n, i, 0)
    )
    kv_spec = pl.BlockSpec(
        (pl.Squeezed(), pl.Squeezed(), bkv, H), lambda b, n, i, j, heads: (b, heads[n], j, 0)
    )
    return pl.pallas_call(
        lambda heads, *refs: grouped_query_attention_kernel(*refs),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B, N, T // bq, S // bkv),
            in_specs=[q_spec, kv_spec, kv_spec],
            out_specs=q_spec,
            scratch_shapes=[pltpu.VMEM((bq, w), jnp.float32) for w in (LANES, LANES, H)],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(jnp.asarray(heads), q, k, v)
