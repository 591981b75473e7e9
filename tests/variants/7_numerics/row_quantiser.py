"""Right kernels of row_quantiser in other styles: see docs/authoring.md."""

# ---- reciprocal ----

"""Multiplies by one reciprocal for each row, and clips before it rounds.

Stars: 3
"""


def row_quantiser_kernel(cap_ref, x_ref, q_ref, scale_ref):
    x = x_ref[...].astype(jnp.float32)
    most = jnp.maximum(jnp.max(x, axis=1), -jnp.min(x, axis=1))[:, None]
    most = jnp.minimum(most, cap_ref[0, 0])
    most = jnp.where(most > 0, most, 127)
    steps = jnp.clip(x * (127 / most), -127, 127)
    q_ref[...] = jax.lax.round(steps, jax.lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.int8)
    scale_ref[...] = most * (1 / 127)


# ---- through_int32 ----

"""Integers are 32 bits wide until they are clipped; the maximum is taken in x's own dtype.

Stars: 3
"""


def row_quantiser_kernel(cap_ref, x_ref, q_ref, scale_ref):
    amax = jnp.max(jnp.abs(x_ref[...]), axis=1, keepdims=True).astype(jnp.float32)
    scale = jnp.minimum(amax, cap_ref[0, 0]) / 127
    scale_ref[...] = jnp.where(scale > 0, scale, 1)
    steps = jnp.rint(x_ref[...] / scale_ref[...]).astype(jnp.int32)
    q_ref[...] = jnp.minimum(jnp.maximum(steps, -127), 127).astype(jnp.int8)
