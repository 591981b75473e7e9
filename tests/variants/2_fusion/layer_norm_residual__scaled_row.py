"""Divides by the deviation, and stores both results at the end.

Stars: 3
"""


def layer_norm_residual_kernel(x_ref, r_ref, w_ref, b_ref, h_ref, y_ref):
    h = x_ref[...].astype(jnp.float32) + r_ref[...]
    centred = h - h.sum(axis=1, keepdims=True) / h.shape[1]
    deviation = jnp.sqrt((centred**2).sum(axis=1, keepdims=True) / h.shape[1] + EPS)
    y_ref[...] = (centred / deviation * w_ref[0] + b_ref[0]).astype(y_ref.dtype)
    h_ref[...] = h.astype(h_ref.dtype)
