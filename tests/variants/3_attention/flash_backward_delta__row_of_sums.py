"""Sums along the lanes and lets the compiler lay the column out as a row.

Stars: 2 or 3: with libtpu 0.0.42, laying sums over lanes out as a row takes twice as long as a
transpose before the sum; with 0.0.50 it does not.
"""


def flash_backward_delta_kernel(o_ref, do_ref, delta_ref):
    product = o_ref[...].astype(jnp.float32) * do_ref[...].astype(jnp.float32)
    delta_ref[...] = jnp.sum(product, axis=1)[None, :]
