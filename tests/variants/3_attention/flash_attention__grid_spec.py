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
