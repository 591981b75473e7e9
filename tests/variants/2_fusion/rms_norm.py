"""Right kernels of rms_norm in other styles: see docs/authoring.md."""

# ---- one_division ----

"""Sums, divides, takes the root, and divides the block by it.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    x = x_ref[...].astype(jnp.float32)
    rms = jnp.sqrt(jnp.sum(x**2, axis=-1) / x.shape[-1] + EPS)
    o_ref[...] = (x * w_ref[0] / rms[:, None]).astype(o_ref.dtype)


# ---- rounded_before_w ----

"""Rounds to x's dtype before it multiplies by w, as many models do: one rounding more.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    x = x_ref[...].astype(jnp.float32)
    mean = jnp.mean(x * x, axis=1, keepdims=True)
    o_ref[...] = (x * jax.lax.rsqrt(mean + EPS)).astype(o_ref.dtype)
    o_ref[...] = (o_ref[...] * w_ref[...]).astype(o_ref.dtype)


# ---- strips ----

"""Takes 8 rows of the block at a time, one register high, so that little has to be kept.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    @pl.loop(0, x_ref.shape[0] // 8)
    def _(strip):
        rows = pl.ds(pl.multiple_of(strip * 8, 8), 8)
        x = x_ref[rows, :].astype(jnp.float32)
        mean = jnp.mean(jnp.square(x), axis=1, keepdims=True)
        o_ref[rows, :] = (x * jax.lax.rsqrt(mean + EPS) * w_ref[...]).astype(o_ref.dtype)


# ---- column_chunks ----

"""Two loops over chunks of 128 columns: one adds squares lane by lane, the other scales.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    M, N = x_ref.shape

    def part(start):
        return x_ref[:, start : start + 128].astype(jnp.float32)

    lanes = jnp.zeros((M, min(N, 128)), jnp.float32)
    whole = N // 128 * 128
    for start in range(0, whole, 128):
        lanes = lanes + jax.lax.integer_pow(part(start), 2)
    total = jax.lax.reduce_sum(lanes, (1,))
    if whole < N:
        total = total + jnp.sum(part(whole) ** 2, axis=1)
    inverse = jax.lax.rsqrt(jax.lax.expand_dims(total, (1,)) / N + EPS)
    for start in range(0, N, 128):
        here = slice(start, start + 128)
        o_ref[:, here] = (part(start) * inverse * w_ref[:, here]).astype(o_ref.dtype)
