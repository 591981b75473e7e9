"""Chooses between 0 and the sum so far with where, and stores once.

In the first step, what is read is not used.

Stars: 3
"""


def row_sum_kernel(x_ref, o_ref):
    so_far = jnp.where(pl.program_id(1) == 0, 0.0, o_ref[...])
    o_ref[...] = so_far + jnp.sum(x_ref[...].astype(jnp.float32), axis=-1, keepdims=True)
