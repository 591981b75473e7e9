"""Right kernels of aligned_grouped_matmul in other styles: see docs/authoring.md."""

# ---- groups_axis ----

"""A grid axis for the group and one for the tile in it; the index map multiplies.

Stars: 3
"""


def aligned_grouped_matmul(x, w, *, tm, tk, tn):
    M, K = x.shape
    G, _, N = w.shape
    tiles = M // G // tm

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        k = pl.program_id(3)

        @pl.when(k == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(k == pl.num_programs(3) - 1)
        def _():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        grid=(N // tn, G, tiles, K // tk),
        in_specs=[
            pl.BlockSpec((tm, tk), lambda j, g, i, k: (g * tiles + i, k)),
            pl.BlockSpec((None, tk, tn), lambda j, g, i, k: (g, k, j)),
        ],
        out_specs=pl.BlockSpec((tm, tn), lambda j, g, i, k: (g * tiles + i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(x, w)


# ---- rows_of_group ----

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


# ---- three_dimensions ----

"""x and the result as stacks of groups, which moves nothing, and blocks of one group each.

Stars: 3
"""


def aligned_grouped_matmul(x, w, *, tm, tk, tn):
    M, K = x.shape
    G, _, N = w.shape
    tiles = M // G // tm
    semantics = ("parallel",) * 3 + ("arbitrary",)

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        k = pl.program_id(3)
        part = jax.lax.dot_general(
            x_ref[...],
            w_ref[...],
            (((2,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        pl.when(k == 0)(lambda: acc_ref.__setitem__(..., part))
        pl.when(k > 0)(lambda: acc_ref.__setitem__(..., acc_ref[...] + part))

        @pl.when(k == K // tk - 1)
        def _():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    o = pl.pallas_call(
        kernel,
        grid=(G, N // tn, tiles, K // tk),
        in_specs=[
            pl.BlockSpec((1, tm, tk), lambda g, j, i, k: (g, i, k)),
            pl.BlockSpec((1, tk, tn), lambda g, j, i, k: (g, k, j)),
        ],
        out_specs=pl.BlockSpec((1, tm, tn), lambda g, j, i, k: (g, i, j)),
        out_shape=jax.ShapeDtypeStruct((G, M // G, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((1, tm, tn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x.reshape(G, M // G, K), w)
    return o.reshape(M, N)
