"""Index maps with *tables, a list of results, and a limit for VMEM.

Stars: 3
"""


def launch_grouped_matmul(x, w, group_sizes, *, tm, tk, tn):
    M, K = x.shape
    N = w.shape[-1]
    *tables, visits = group_metadata(group_sizes, M=M, tm=tm)
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=len(tables),
        grid=(pl.cdiv(N, tn), visits, pl.cdiv(K, tk)),
        in_specs=[
            pl.BlockSpec((tm, tk), lambda j, v, k, *t: (t[2][v], k)),
            pl.BlockSpec((None, tk, tn), lambda j, v, k, *t: (t[1][v], k, j)),
        ],
        out_specs=[pl.BlockSpec((tm, tn), lambda j, v, k, *t: (t[2][v], j))],
        scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
    )
    return pl.pallas_call(
        launch_grouped_matmul_kernel,
        grid_spec=grid_spec,
        out_shape=[jax.ShapeDtypeStruct((M, N), x.dtype)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"),
            vmem_limit_bytes=64 * 1024 * 1024,
        ),
    )(*tables, x, w)[0]
