"""Right kernels of splash_attention in other styles: see docs/authoring.md."""

# ---- heads_first ----

"""Heads outermost, then the batch; the kernel chooses the mask with lax.cond.

Stars: 3
"""


def splash_attention_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    mask_ref,
    o_ref,
    lse_ref,
    m_ref,
    l_ref,
    acc_ref,
):
    i, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, step]

    @pl.when(step == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    def masked():
        s = jnp.where(mask_ref[...] == 0, MASK_VALUE, scores(q_ref, k_ref))
        attend(s, v_ref, m_ref, l_ref, acc_ref)

    def whole():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    pl.when(kind > 0)(lambda: jax.lax.cond(kind == 1, masked, whole))

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        store(o_ref, lse_ref, m_ref, l_ref, acc_ref)


def splash_attention(q, k, v, partial_masks, block_mask, data_next, mask_next):
    B, N, T, H = q.shape
    group = N // k.shape[1]
    _, bq, bkv = partial_masks.shape
    rows, steps = block_mask.shape
    q_spec = pl.BlockSpec((None, None, bq, H), lambda n, b, i, s, kind, data, mask: (b, n, i, 0))
    kv_spec = pl.BlockSpec(
        (None, None, bkv, H), lambda n, b, i, s, kind, data, mask: (b, n // group, data[i, s], 0)
    )
    mask_spec = pl.BlockSpec(
        (None, bq, bkv), lambda n, b, i, s, kind, data, mask: (mask[i, s], 0, 0)
    )
    return pl.pallas_call(
        splash_attention_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N, B, rows, steps),
            in_specs=[q_spec, kv_spec, kv_spec, mask_spec],
            out_specs=(
                q_spec,
                pl.BlockSpec(
                    (None, None, 1, bq), lambda n, b, i, s, kind, data, mask: (b, n, 0, i)
                ),
            ),
            scratch_shapes=[
                pltpu.VMEM((bq, LANES), jnp.float32),
                pltpu.VMEM((bq, LANES), jnp.float32),
                pltpu.VMEM((bq, H), jnp.float32),
            ],
        ),
        out_shape=(
            jax.ShapeDtypeStruct(q.shape, q.dtype),
            jax.ShapeDtypeStruct((B, N, 1, T), jnp.float32),
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary", "arbitrary")
        ),
    )(block_mask, data_next, mask_next, q, k, v, partial_masks)


# ---- star_tables ----

"""Index maps that take the tables as *tables, made by functions of their own.

Stars: 3
"""


def splash_attention(q, k, v, partial_masks, block_mask, data_next, mask_next):
    B, N, _, H = q.shape
    K = k.shape[1]
    _, bq, bkv = partial_masks.shape

    def queries(b, n, i, step, *tables):
        return b, n, i, 0

    def keys(b, n, i, step, *tables):
        _, block, _ = tables
        return b, jax.lax.div(n, N // K), block[i, step], 0

    def mask(b, n, i, step, *tables):
        return tables[2][i, step], 0, 0

    head = (pl.squeezed, pl.squeezed)
    return pl.pallas_call(
        splash_attention_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(B, N, *block_mask.shape),
            in_specs=[
                pl.BlockSpec((*head, bq, H), queries),
                pl.BlockSpec((*head, bkv, H), keys),
                pl.BlockSpec((*head, bkv, H), keys),
                pl.BlockSpec((pl.squeezed, bq, bkv), mask),
            ],
            out_specs=[
                pl.BlockSpec((*head, bq, H), queries),
                pl.BlockSpec((*head, 1, bq), lambda b, n, i, *rest: (b, n, 0, i)),
            ],
            scratch_shapes=[pltpu.VMEM((bq, width), jnp.float32) for width in (LANES, LANES, H)],
        ),
        out_shape=[
            jax.ShapeDtypeStruct(q.shape, q.dtype),
            jax.ShapeDtypeStruct((B, N, 1, q.shape[2]), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="splash",
    )(block_mask, data_next, mask_next, q, k, v, partial_masks)
