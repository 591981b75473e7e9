"""Right kernels of launch_vector_add in other styles: see docs/authoring.md."""

# ---- emit_pipeline ----

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


# ---- grid_spec ----

"""A GridSpec, blocks that grow in steps of four, and a cost estimate for XLA's scheduler.

Stars: 3
"""


def launch_vector_add(x, y, z, *, bn):
    (n,) = x.shape
    while bn <= 32768 and n % (4 * bn) == 0:
        bn = 4 * bn
    blocks = [pl.BlockSpec((bn,), lambda i: (i,)) for _ in range(3)]
    grid_spec = pl.GridSpec(
        grid=(pl.cdiv(n, bn),), in_specs=blocks, out_specs=pl.BlockSpec((bn,), lambda i: (i,))
    )
    return pl.pallas_call(
        launch_vector_add_kernel,
        grid_spec=grid_spec,
        out_shape=jax.ShapeDtypeStruct((n,), x.dtype),
        cost_estimate=pl.CostEstimate(
            flops=2 * n, bytes_accessed=4 * n * x.dtype.itemsize, transcendentals=0
        ),
        name="vector_add",
    )(x, y, z)


# ---- no_prefetch ----

"""A PrefetchScalarGridSpec that prefetches nothing, in jax.checkpoint and jax.jit.

Stars: 2, since it keeps to blocks of bn, which are small at production size.
"""


def launch_vector_add(x, y, z, *, bn):
    def block(i):
        return (i,)

    call = pl.pallas_call(
        launch_vector_add_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=0,
            grid=(x.size // bn,),
            in_specs=[pl.BlockSpec((bn,), block)] * 3,
            out_specs=pl.BlockSpec((bn,), block),
        ),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
    )
    return jax.jit(jax.checkpoint(call))(x, y, z)
