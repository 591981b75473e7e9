"""Keeps a register of maxima in VMEM, one for each lane, and reduces it to a number at the end.

Stars: 3
"""


def two_memories_kernel(scale_ref, x_ref, o_ref, top_ref, tops_ref):
    step = pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)

    @pl.when(step == 0)
    def _():
        tops_ref[...] = jnp.zeros_like(tops_ref)

    x = x_ref[...].astype(jnp.float32)
    o_ref[...] = (x * scale_ref[0, 0]).astype(o_ref.dtype)
    tops_ref[...] = jnp.maximum(tops_ref[...], jnp.max(jnp.abs(x), axis=0, keepdims=True))

    @pl.when(step == pl.num_programs(0) * pl.num_programs(1) - 1)
    def _():
        top_ref[0, 0] = jnp.max(tops_ref[...])


def two_memories(scale, x, *, bm, bn):
    M, N = x.shape
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    return pl.pallas_call(
        two_memories_kernel,
        grid=(M // bm, N // bn),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), block],
        out_specs=(block, pl.BlockSpec(memory_space=pltpu.SMEM)),
        out_shape=(
            jax.ShapeDtypeStruct((M, N), x.dtype),
            jax.ShapeDtypeStruct((1, 1), jnp.float32),
        ),
        scratch_shapes=[pltpu.VMEM((1, bn), jnp.float32)],
    )(scale, x)
