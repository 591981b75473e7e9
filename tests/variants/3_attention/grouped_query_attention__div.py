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
