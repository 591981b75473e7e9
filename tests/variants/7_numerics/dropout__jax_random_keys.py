"""Bits out of a key of jax.random, into which the block's place is folded.

Stars: 2 (a generator that is computed takes ten times as long as the hardware's)
"""


def dropout_kernel(seed_ref, x_ref, o_ref, *, percent):
    key = jax.random.fold_in(jax.random.key(seed_ref[0]), pl.program_id(0))
    bits = jax.random.bits(jax.random.fold_in(key, pl.program_id(1)), x_ref.shape, jnp.uint32)
    scaled = x_ref[...].astype(jnp.float32) / (1 - percent / 100)
    o_ref[...] = jnp.where(bits < jnp.uint32(2**32 * percent // 100), 0, scaled).astype(o_ref.dtype)
