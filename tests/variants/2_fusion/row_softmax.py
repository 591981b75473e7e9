"""Right kernels of row_softmax in other styles: see docs/authoring.md."""

# ---- exponent ----

"""Takes the logarithm of the sum off the scores, and one exponential more instead of a division.

Stars: 3
"""


def row_softmax_kernel(x_ref, p_ref):
    x = x_ref[...].astype(jnp.float32)
    m = jnp.max(x, axis=1, keepdims=True)
    lse = m + jnp.log(jnp.sum(jnp.exp(x - m), axis=1, keepdims=True))
    p_ref[...] = jnp.exp(x - lse).astype(p_ref.dtype)


# ---- jax_nn ----

"""Calls jax.nn.softmax on the block, in float32.

Stars: 3
"""


def row_softmax_kernel(x_ref, p_ref):
    p_ref[...] = jax.nn.softmax(x_ref[...].astype(jnp.float32), axis=-1).astype(p_ref.dtype)


# ---- strips ----

"""Takes 8 rows at a time, and multiplies by the inverse of their sums.

Stars: 3
"""


def row_softmax_kernel(x_ref, p_ref):
    @pl.loop(0, x_ref.shape[0] // 8)
    def _(strip):
        rows = pl.ds(pl.multiple_of(strip * 8, 8), 8)
        x = x_ref[rows, :].astype(jnp.float32)
        e = jnp.exp(x - x.max(axis=1, keepdims=True))
        p_ref[rows, :] = (e * (1 / e.sum(axis=1, keepdims=True))).astype(p_ref.dtype)


# ---- by_log_softmax ----

"""Takes the exponential of jax.nn.log_softmax, in the kernel.

Stars: 3
"""


def row_softmax_kernel(x_ref, p_ref):
    x = x_ref[...].astype(jnp.float32)
    p_ref[...] = jnp.exp(jax.nn.log_softmax(x, axis=1)).astype(p_ref.dtype)
