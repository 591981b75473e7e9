"""Right kernels of fit_vmem in other styles: see docs/authoring.md."""

# ---- copied_by_hand ----

"""The weights stay in HBM, and a step whose expert is new copies them to scratch.

Stars: 3
"""


def fit_vmem(experts, x, w, *, bm):
    T, D = x.shape
    N = w.shape[2]

    def kernel(experts_ref, x_ref, w_hbm, o_ref, w_ref):
        i = pl.program_id(0)
        before = experts_ref[jnp.maximum(i - 1, 0)]

        @pl.when((i == 0) | (experts_ref[i] != before))
        def _():
            pltpu.sync_copy(w_hbm.at[experts_ref[i]], w_ref)

        fit_vmem_kernel(experts_ref, x_ref, w_ref, o_ref)

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(T // bm,),
            in_specs=[
                pl.BlockSpec((bm, D), lambda i, _: (i, 0)),
                pl.BlockSpec(memory_space=pltpu.HBM),
            ],
            out_specs=pl.BlockSpec((bm, N), lambda i, _: (i, 0)),
            scratch_shapes=[pltpu.VMEM((D, N), w.dtype)],
        ),
        out_shape=jax.ShapeDtypeStruct((T, N), x.dtype),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=100_000_000),
    )(experts, x, w)


# ---- squeezed ----

"""A squeezed dimension, two buffers said for what has them, and all of the chip's VMEM.

Stars: 3
"""


def fit_vmem(experts, x, w, *, bm):
    (B,), (_, D, N) = experts.shape, w.shape
    two = pl.Buffered(buffer_count=2)
    one = pl.Buffered(buffer_count=1)
    return pl.pallas_call(
        lambda *refs: fit_vmem_kernel(*refs),
        out_shape=jax.ShapeDtypeStruct((len(x), N), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B,),
            in_specs=[
                pl.BlockSpec((bm, D), lambda i, e: (i, 0), pipeline_mode=two),
                pl.BlockSpec((pl.Squeezed(), D, N), lambda i, e: (e[i], 0, 0), pipeline_mode=one),
            ],
            out_specs=pl.BlockSpec((bm, N), lambda i, e: (i, 0), pipeline_mode=two),
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=128 * 2**20
        ),
    )(experts, x, w)
