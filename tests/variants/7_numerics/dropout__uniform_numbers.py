"""Uniform numbers in place of bits, and a mask that is multiplied by; seed and block as one word.

Stars: 3
"""


def dropout_kernel(seed_ref, x_ref, o_ref, *, percent):
    i, j = pl.program_id(0), pl.program_id(1)
    pltpu.prng_seed(
        seed_ref[0] * (pl.num_programs(0) * pl.num_programs(1)) + i + j * pl.num_programs(0)
    )
    uniform = pltpu.stateful_uniform(x_ref.shape, jnp.float32)
    mask = (uniform >= percent / 100).astype(jnp.float32) / (1 - percent / 100)
    o_ref[...] = (mask * x_ref[...]).astype(o_ref.dtype)
