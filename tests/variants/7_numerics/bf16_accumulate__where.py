"""No branches: the first step chooses with where, and the quotient is stored in every step.

Stars: 3
"""


def bf16_accumulate_kernel(x_ref, w_ref, o_ref, total_ref, norm_ref):
    first = pl.program_id(1) == 0
    w = w_ref[...].astype(jnp.float32)
    total = jnp.where(first, 0, total_ref[...]) + jnp.sum(w * x_ref[...], axis=0)[None]
    norm = jnp.where(first, 0, norm_ref[...]) + jnp.sum(w, axis=0)[None]
    total_ref[...], norm_ref[...] = total, norm
    o_ref[...] = total / norm
