"""Rounds to x's dtype before it multiplies by w, as many models do: one rounding more.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    x = x_ref[...].astype(jnp.float32)
    mean = jnp.mean(x * x, axis=1, keepdims=True)
    o_ref[...] = (x * jax.lax.rsqrt(mean + EPS)).astype(o_ref.dtype)
    o_ref[...] = (o_ref[...] * w_ref[...]).astype(o_ref.dtype)
