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
            out_specs=[pl.BlockSpec((*head, bq, H), queries)],
            scratch_shapes=[pltpu.VMEM((bq, width), jnp.float32) for width in (LANES, LANES, H)],
        ),
        out_shape=[jax.ShapeDtypeStruct(q.shape, q.dtype)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="splash",
    )(block_mask, data_next, mask_next, q, k, v, partial_masks)[0]
