"""Joins the halves before it stores them: two shifts of every register by half a row.

Stars: 3
"""


def rope_kernel(x_ref, cos_ref, sin_ref, o_ref):
    cos, sin = cos_ref[...], sin_ref[...]
    a, b = jnp.split(x_ref[...].astype(jnp.float32), 2, axis=2)
    turned = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=2)
    o_ref[...] = turned.astype(o_ref.dtype)
