"""Right kernels of vmap_a_kernel in other styles: see docs/authoring.md."""

# ---- one_matmul ----

"""The rows of all sequences are those of one matrix, and an index map finds the bias of a block.

Stars: 3
"""


def vmap_a_kernel(x, w, bias, *, bm):
    (B, M, K), (_, N) = x.shape, w.shape
    result = pl.pallas_call(
        layer_kernel,
        grid=(B * M // bm,),
        in_specs=[
            pl.BlockSpec((bm, K), lambda i: (i, 0)),
            pl.BlockSpec((K, N), lambda i: (0, 0)),
            pl.BlockSpec((None, 1, N), lambda i: (i // (M // bm), 0, 0)),
        ],
        out_specs=pl.BlockSpec((bm, N), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((B * M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x.reshape(B * M, K), w, bias)
    return result.reshape(B, M, N)


# ---- two_vmaps ----

"""vmap of a launch without a grid, over b and over blocks of rows.

Stars: 3
"""


def layer(x, w, bias, *, bm):
    def rows(x):
        out_shape = jax.ShapeDtypeStruct((bm, w.shape[1]), x.dtype)
        return pl.pallas_call(layer_kernel, out_shape=out_shape)(x, w, bias)

    M, K = x.shape
    return jax.vmap(rows)(x.reshape(M // bm, bm, K)).reshape(M, -1)


def vmap_a_kernel(x, w, bias, *, bm):
    def of_b(x, bias):
        return layer(x, w, bias, bm=bm)

    return jax.vmap(of_b)(x, bias)
