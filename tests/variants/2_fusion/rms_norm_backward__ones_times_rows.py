"""Sums dw on the matrix unit, by a row of ones, zeros past the edge, and masks both operands.

Stars: 3
"""


def rms_norm_backward_kernel(x_ref, w_ref, dy_ref, dx_ref, dw_ref, *, m):
    i, bm = pl.program_id(0), x_ref.shape[0]
    inside = jax.lax.broadcasted_iota(jnp.int32, (bm, 1), 0) < m - i * bm
    x = jnp.where(inside, x_ref[...].astype(jnp.float32), 0)
    dy = jnp.where(inside, dy_ref[...].astype(jnp.float32), 0)
    s = jax.lax.rsqrt(jnp.mean(x**2, axis=1, keepdims=True) + EPS)
    g = dy * w_ref[...]
    along = jnp.sum(g * x, axis=1, keepdims=True) / x.shape[1]
    dx_ref[...] = (s * g - x * (s**3 * along)).astype(dx_ref.dtype)
    ones = jnp.ones((8, bm), jnp.float32)
    added = jnp.dot(ones, dy * x * s, precision=jax.lax.Precision.HIGHEST)[:1]
    dw_ref[...] = jnp.where(i == 0, added, dw_ref[...] + added)
