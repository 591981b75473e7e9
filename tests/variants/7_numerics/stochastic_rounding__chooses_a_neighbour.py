"""Both neighbours, and a choice between them by comparing the lower half with a random number.

Stars: 3
"""


def stochastic_rounding_kernel(seed_ref, w_ref, u_ref, o_ref):
    pltpu.prng_seed(pl.program_id(0), seed_ref[0])
    dice = jax.lax.shift_right_logical(pltpu.prng_random_bits(w_ref.shape), 16)
    bits = pltpu.bitcast(w_ref[...].astype(jnp.float32) + u_ref[...], jnp.int32)
    toward = bits & ~0xFFFF
    chosen = jnp.where(dice < (bits & 0xFFFF), toward + 0x10000, toward)
    o_ref[...] = pltpu.bitcast(chosen, jnp.float32).astype(jnp.bfloat16)
