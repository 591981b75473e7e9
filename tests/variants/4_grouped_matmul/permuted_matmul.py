"""Right kernels of permuted_matmul in other styles: see docs/authoring.md."""

# ---- blocks_of_rows ----

"""Three-dimensional x, a block of rows for each first index: a reshape that moves nothing.

Stars: 3
"""


def permuted_matmul(x, w, order, *, tm, tk, tn):
    M, K = x.shape
    _, N = w.shape
    return pl.pallas_call(
        permuted_matmul_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(M // tm, N // tn, K // tk),
            in_specs=[
                pl.BlockSpec((None, tm, tk), lambda i, j, k, order_ref: (order_ref[i], 0, k)),
                pl.BlockSpec((tk, tn), lambda i, j, k, order_ref: (k, j)),
            ],
            out_specs=pl.BlockSpec((tm, tn), lambda i, j, k, order_ref: (i, j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(order, x.reshape(M // tm, tm, K), w)


# ---- named_maps ----

"""Index maps with names and *tables, columns outermost.

Stars: 3
"""


def permuted_matmul(x, w, order, *, tm, tk, tn):
    M, K = x.shape
    _, N = w.shape

    def rows(j, i, k, *tables):
        (table,) = tables
        return table[i], k

    return pl.pallas_call(
        permuted_matmul_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(N // tn, M // tm, K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), rows),
                pl.BlockSpec((tk, tn), lambda j, i, k, *_: (k, j)),
            ],
            out_specs=[pl.BlockSpec((tm, tn), lambda j, i, k, *_: (i, j))],
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=[jax.ShapeDtypeStruct((M, N), x.dtype)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(order, x, w)[0]
