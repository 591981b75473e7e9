"""Right kernels of stochastic_rounding in other styles: see docs/authoring.md."""

# ---- chooses_a_neighbour ----

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


# ---- the_chips_operation ----

"""The chip's own operation, of which the interpreter makes the same.

Stars: 3
"""


def stochastic_rounding_kernel(seed_ref, w_ref, u_ref, o_ref):
    pltpu.prng_seed(seed_ref[0], pl.program_id(0))
    bits = pltpu.bitcast(pltpu.prng_random_bits(w_ref.shape), jnp.uint32)
    x = w_ref[...].astype(jnp.float32) + u_ref[...]
    o_ref[...] = pltpu.stochastic_round(x, bits, target_dtype=jnp.bfloat16)
