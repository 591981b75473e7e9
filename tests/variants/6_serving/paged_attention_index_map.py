"""Right kernels of paged_attention_index_map in other styles: see docs/authoring.md."""

# ---- online ----

"""The step written out, with masks made of slots and not of what is left, and a lookup by clip.

Stars: 3
"""


def paged_attention_index_map_kernel(
    lengths_ref, table_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref
):
    b, t = pl.program_id(0), pl.program_id(1)
    P, D = k_ref.shape[1:]
    length = lengths_ref[b]

    @pl.when(t == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -1e30)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(t * P < length)
    def _():
        s = jnp.einsum("grd,gsd->grs", q_ref[...], k_ref[...], preferred_element_type=jnp.float32)
        slot = t * P + jax.lax.broadcasted_iota(jnp.int32, s.shape, 2)
        s = jnp.where(slot < length, s * D**-0.5, -1e30)
        row = t * P + jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 1)
        v = jnp.where(row < length, v_ref[...], 0)
        m = jnp.maximum(m_ref[...], jnp.max(s, axis=2, keepdims=True))
        p, alpha = jnp.exp(s - m), jnp.exp(m_ref[...] - m)
        m_ref[...] = m
        l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=2, keepdims=True)
        pv = jnp.einsum("grs,gsd->grd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
        acc_ref[...] = alpha * acc_ref[...] + pv

    @pl.when(t == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / jnp.maximum(l_ref[...], 1e-30)).astype(o_ref.dtype)


def paged_attention_index_map(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "N G P D"],
    v: Float[Array, "N G P D"],
) -> Float[Array, "B G R D"]:
    (B, G, R, D), T, P = q.shape, table.shape[1], k.shape[2]

    def page(b, t, lengths, table):
        pages = (lengths[b] + P - 1) // P
        return table[b, jnp.clip(t, 0, jnp.maximum(pages - 1, 0))], 0, 0, 0

    q_spec = pl.BlockSpec((None, G, R, D), lambda b, t, lengths, table: (b, 0, 0, 0))
    kv_spec = pl.BlockSpec((None, G, P, D), page)
    return pl.pallas_call(
        paged_attention_index_map_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(B, T),
            in_specs=[q_spec, kv_spec, kv_spec],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, D), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
    )(lengths, table, q, k, v)


# ---- select ----

"""An index map that selects: pages past the end name the last one by its own lookup.

Stars: 3
"""


def paged_attention_index_map_kernel(
    lengths_ref, table_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref
):
    b, t = pl.program_id(0), pl.program_id(1)
    P = k_ref.shape[1]
    left = jnp.clip(lengths_ref[b] - t * P, 0, P)

    @pl.when(t == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(left == P)
    def _():
        attend_up_to(q_ref[...], k_ref[...], v_ref[...], P, m_ref, l_ref, acc_ref)

    @pl.when((left > 0) & (left < P))
    def _():
        attend_up_to(q_ref[...], k_ref[...], v_ref[...], left, m_ref, l_ref, acc_ref)

    @pl.when(t == pl.num_programs(1) - 1)
    def _():
        total = l_ref[...]
        o_ref[...] = jnp.where(total > 0, acc_ref[...] / total, 0).astype(o_ref.dtype)


def paged_attention_index_map(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "N G P D"],
    v: Float[Array, "N G P D"],
) -> Float[Array, "B G R D"]:
    (B, G, R, D), T, P = q.shape, table.shape[1], k.shape[2]

    def page(b, t, lengths, table):
        last = jax.lax.max(lengths[b] - 1, 0) // P
        return jax.lax.select(t < last, table[b, t], table[b, last]), 0, 0, 0

    q_spec = pl.BlockSpec((pl.Squeezed(), G, R, D), lambda b, t, *_: (b, 0, 0, 0))
    kv_spec = pl.BlockSpec((pl.Squeezed(), G, P, D), page)
    return pl.pallas_call(
        paged_attention_index_map_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(B, T),
            in_specs=[q_spec, kv_spec, kv_spec],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, D), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
    )(lengths, table, q, k, v)
