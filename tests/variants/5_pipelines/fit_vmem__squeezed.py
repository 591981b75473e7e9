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
