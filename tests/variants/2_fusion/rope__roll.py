"""Rotates whole registers by half a row, with the signs in the sine: pltpu.roll.

Stars: 3
"""


def rope_kernel(x_ref, cos_ref, sin_ref, o_ref):
    half = cos_ref.shape[1]
    cos = jnp.concatenate([cos_ref[...], cos_ref[...]], axis=1)
    sin = jnp.concatenate([-sin_ref[...], sin_ref[...]], axis=1)
    x = x_ref[...].astype(jnp.float32)
    o_ref[...] = (x * cos + pltpu.roll(x, half, 2) * sin).astype(o_ref.dtype)
