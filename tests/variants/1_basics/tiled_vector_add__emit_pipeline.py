"""Leaves the arrays in HBM and cuts them into blocks inside the kernel, with emit_pipeline.

Stars: 3
"""


def tiled_vector_add(x, y, *, bn):
    block = pl.BlockSpec((bn,), lambda i: (i,))

    def pipelined(x_ref, y_ref, o_ref):
        pltpu.emit_pipeline(
            tiled_vector_add_kernel,
            grid=(x.shape[0] // bn,),
            in_specs=[block, block],
            out_specs=[block],
        )(x_ref, y_ref, o_ref)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        pipelined,
        in_specs=[anywhere, anywhere],
        out_specs=anywhere,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, y)
