"""The chip's own operation, of which the interpreter makes the same.

Stars: 3
"""


def stochastic_rounding_kernel(seed_ref, w_ref, u_ref, o_ref):
    pltpu.prng_seed(seed_ref[0], pl.program_id(0))
    bits = pltpu.bitcast(pltpu.prng_random_bits(w_ref.shape), jnp.uint32)
    x = w_ref[...].astype(jnp.float32) + u_ref[...]
    o_ref[...] = pltpu.stochastic_round(x, bits, target_dtype=jnp.bfloat16)
