"""Finds the group by the row where the tile begins; GridSpec.

Stars: 3
"""


def aligned_grouped_matmul(x, w, *, tm, tk, tn):
    (M, K), (G, _, N) = x.shape, w.shape
    rows = M // G

    def weights(j, i, k):
        return jax.lax.div(i * tm, rows), k, j

    return pl.pallas_call(
        aligned_grouped_matmul_kernel,
        grid_spec=pl.GridSpec(
            grid=(N // tn, M // tm, K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, i, k: (i, k)),
                pl.BlockSpec((pl.squeezed, tk, tn), weights),
            ],
            out_specs=pl.BlockSpec((tm, tn), lambda j, i, k: (i, j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w)
