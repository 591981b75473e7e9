"""Right kernels of dropout in other styles: see docs/authoring.md."""

# ---- jax_random_keys ----

"""Bits out of a key of jax.random, into which the block's place is folded.

Stars: 2 (a generator that is computed takes ten times as long as the hardware's)
"""


def dropout_kernel(seed_ref, x_ref, o_ref, *, percent):
    key = jax.random.fold_in(jax.random.key(seed_ref[0]), pl.program_id(0))
    bits = jax.random.bits(jax.random.fold_in(key, pl.program_id(1)), x_ref.shape, jnp.uint32)
    scaled = x_ref[...].astype(jnp.float32) / (1 - percent / 100)
    o_ref[...] = jnp.where(bits < jnp.uint32(2**32 * percent // 100), 0, scaled).astype(o_ref.dtype)


# ---- strips_of_a_block ----

"""Each block in strips of 16 rows, drawn one after the other.

Stars: 3
"""


def dropout_kernel(seed_ref, x_ref, o_ref, *, percent):
    pltpu.prng_seed(seed_ref[0], pl.program_id(0) * pl.num_programs(1) + pl.program_id(1))
    threshold = 2**31 * percent // 100 * 2 - 2**31

    @pl.loop(0, x_ref.shape[0] // 16)
    def _(strip):
        rows = pl.ds(pl.multiple_of(strip * 16, 16), 16)
        x = x_ref[rows, :].astype(jnp.float32)
        dropped = pltpu.prng_random_bits(x.shape) < threshold
        o_ref[rows, :] = jnp.where(dropped, 0, x / (1 - percent / 100)).astype(o_ref.dtype)


# ---- uniform_numbers ----

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
