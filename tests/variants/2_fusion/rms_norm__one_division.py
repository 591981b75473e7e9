"""Sums, divides, takes the root, and divides the block by it.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    x = x_ref[...].astype(jnp.float32)
    rms = jnp.sqrt(jnp.sum(x**2, axis=-1) / x.shape[-1] + EPS)
    o_ref[...] = (x * w_ref[0] / rms[:, None]).astype(o_ref.dtype)
