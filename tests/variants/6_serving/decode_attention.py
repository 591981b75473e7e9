"""Right kernels of decode_attention in other styles: see docs/authoring.md."""

# ---- exp2 ----

"""Powers of two, batched dot_generals, a finite mask, and weights that are masked as well.

Stars: 3
"""


def decode_attention_kernel(lengths_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(1)
    G, bs, D = k_ref.shape
    left = lengths_ref[pl.program_id(0)] - j * bs

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -1e30)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(left > 0)
    def _():
        s = jax.lax.dot_general(
            q_ref[...],
            k_ref[...],
            (((2,), (2,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        here = jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left
        s = jnp.where(here, s * (D**-0.5 * 1.4426950408889634), -1e30)
        m = jnp.maximum(m_ref[...], jnp.max(s, axis=2, keepdims=True))
        p = jnp.where(here, jnp.exp2(s - m), 0.0)
        alpha = jnp.exp2(m_ref[...] - m)
        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 1) < left, v_ref[...], 0)
        m_ref[...] = m
        l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=2, keepdims=True)
        acc_ref[...] = alpha * acc_ref[...] + jax.lax.dot_general(
            p.astype(v.dtype),
            v,
            (((2,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)


# ---- head_by_head ----

"""A dot for each head of keys, a finite mask, and masks in the last block alone.

Stars: 3
"""


def decode_attention_kernel(lengths_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(1)
    G, bs, D = k_ref.shape
    left = lengths_ref[pl.program_id(0)] - j * bs

    def attend(masked):
        for g in range(G):
            v = v_ref[g]
            s = jnp.dot(q_ref[g], k_ref[g].T, preferred_element_type=jnp.float32) * D**-0.5
            if masked:
                s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -1e30)
                v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
            m = jnp.maximum(m_ref[g], s.max(axis=1, keepdims=True))
            p = jnp.exp(s - m)
            alpha = jnp.exp(m_ref[g] - m)
            m_ref[g] = m
            l_ref[g] = alpha * l_ref[g] + p.sum(axis=1, keepdims=True)
            pv = jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
            acc_ref[g] = alpha * acc_ref[g] + pv

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -1e30)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    pl.when(left >= bs)(lambda: attend(masked=False))
    pl.when((left > 0) & (left < bs))(lambda: attend(masked=True))

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)


# ---- sum_from_ones ----

"""Shifts the scores by a mask that is added, and keeps all updates in one cond with values.

Stars: 3
"""


def decode_attention_kernel(lengths_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    b, j = pl.program_id(0), pl.program_id(1)
    G, bs, D = k_ref.shape
    state = (m_ref, l_ref, acc_ref)
    left = lengths_ref[b] - j * bs
    low = jnp.float32(-2e38)

    @pl.when(j == 0)
    def _():
        for ref, value in zip(state, (low, 0.0, 0.0), strict=True):
            ref[...] = jnp.full(ref.shape, value, ref.dtype)

    def attended():
        q = q_ref[...]
        s = jnp.einsum("gsd,grd->grs", k_ref[...], q, preferred_element_type=jnp.float32)
        key = jax.lax.broadcasted_iota(jnp.int32, (1, 1, bs), 2)
        s = jnp.where(key < left, s * jnp.float32(D) ** -0.5, low)
        m_old, l_old, acc_old = (ref[...] for ref in state)
        m = jnp.maximum(m_old, s.max(axis=-1, keepdims=True))
        p = jnp.exp(s - m)
        keep = jnp.exp(m_old - m)
        row = jax.lax.broadcasted_iota(jnp.int32, (bs, 1), 0)
        v = jnp.where(row < left, v_ref[...], jnp.zeros((), v_ref.dtype))
        pv = jnp.einsum("grs,gsd->grd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
        return m, keep * l_old + p.sum(axis=-1, keepdims=True), keep * acc_old + pv

    @pl.when(jnp.logical_not(left <= 0))
    def _():
        for ref, value in zip(state, attended(), strict=True):
            ref[...] = value

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = (acc_ref[...] * (1 / l_ref[...])).astype(o_ref.dtype)
