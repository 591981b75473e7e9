"""Gathers the windows in VMEM, channels of all taps side by side, and multiplies once.

Stars: 3
"""


def conv2d_kernel(x_ref, w_ref, o_ref):
    _, bh, Q, F = o_ref.shape
    KH, KW, C, _ = w_ref.shape
    windows = [x_ref[0, y : y + bh, x : x + Q] for y in range(KH) for x in range(KW)]
    matrix = jnp.concatenate([window.reshape(bh * Q, C) for window in windows], axis=1)
    weights = w_ref[...].reshape(KH * KW * C, F)
    result = jnp.dot(matrix, weights, preferred_element_type=jnp.float32)
    o_ref[0] = result.reshape(bh, Q, F).astype(o_ref.dtype)
