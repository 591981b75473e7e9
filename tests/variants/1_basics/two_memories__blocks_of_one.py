"""Blocks of one word in SMEM, with index maps; the first step stores instead of comparing.

Stars: 3
"""


def two_memories_kernel(scale_ref, x_ref, o_ref, top_ref):
    i, j = pl.program_id(0), pl.program_id(1)
    x = x_ref[...]
    o_ref[...] = (x * scale_ref[0, 0]).astype(o_ref.dtype)
    top = jnp.max(jnp.abs(x.astype(jnp.float32)))
    first = jnp.logical_and(i == 0, j == 0)

    @pl.when(first)
    def _():
        top_ref[0, 0] = top

    @pl.when(jnp.logical_not(first))
    def _():
        top_ref[0, 0] = jax.lax.max(top_ref[0, 0], top)


def two_memories(scale, x, *, bm, bn):
    word = pl.BlockSpec((1, 1), lambda i, j: (0, 0), memory_space=pltpu.SMEM)
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    return tuple(
        pl.pallas_call(
            two_memories_kernel,
            grid=(x.shape[0] // bm, x.shape[1] // bn),
            in_specs=[word, block],
            out_specs=[block, word],
            out_shape=[
                jax.ShapeDtypeStruct(x.shape, x.dtype),
                jax.ShapeDtypeStruct((1, 1), jnp.float32),
            ],
        )(scale, x)
    )
