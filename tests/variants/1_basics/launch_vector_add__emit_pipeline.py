"""One grid step; the blocks are those of emit_pipeline.

Stars: 2, since it keeps to blocks of bn, which are small at production size.
"""


def launch_vector_add(x, y, z, *, bn):
    block = pl.BlockSpec((bn,), lambda i: (i,))

    def pipelined(x_ref, y_ref, z_ref, o_ref):
        pipeline = pltpu.emit_pipeline(
            launch_vector_add_kernel,
            grid=(x.shape[0] // bn,),
            in_specs=[block] * 3,
            out_specs=block,
        )
        pipeline(x_ref, y_ref, z_ref, o_ref)

    return pl.pallas_call(
        pipelined,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 3,
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, y, z)
