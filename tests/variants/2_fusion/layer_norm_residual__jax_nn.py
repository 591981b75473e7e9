"""Standardizes with jax.nn, with a variance that it is given: its own is the shortcut.

Stars: 3
"""


def layer_norm_residual_kernel(x_ref, r_ref, w_ref, b_ref, h_ref, y_ref):
    h = x_ref[...].astype(jnp.float32) + r_ref[...].astype(jnp.float32)
    h_ref[...] = h.astype(h_ref.dtype)
    variance = jnp.var(h, axis=1, keepdims=True)
    y = jax.nn.standardize(h, axis=1, variance=variance, epsilon=EPS)
    y_ref[...] = (y * w_ref[...] + b_ref[...]).astype(y_ref.dtype)
