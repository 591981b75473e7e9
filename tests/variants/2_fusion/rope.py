"""Right kernels of rope in other styles: see docs/authoring.md."""

# ---- joined ----

"""Joins the halves before it stores them: two shifts of every register by half a row.

Stars: 3
"""


def rope_kernel(x_ref, cos_ref, sin_ref, o_ref):
    cos, sin = cos_ref[...], sin_ref[...]
    a, b = jnp.split(x_ref[...].astype(jnp.float32), 2, axis=2)
    turned = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=2)
    o_ref[...] = turned.astype(o_ref.dtype)


# ---- roll ----

"""Rotates whole registers by half a row, with the signs in the sine: pltpu.roll.

Stars: 3
"""


def rope_kernel(x_ref, cos_ref, sin_ref, o_ref):
    half = cos_ref.shape[1]
    cos = jnp.concatenate([cos_ref[...], cos_ref[...]], axis=1)
    sin = jnp.concatenate([-sin_ref[...], sin_ref[...]], axis=1)
    x = x_ref[...].astype(jnp.float32)
    o_ref[...] = (x * cos + pltpu.roll(x, half, 2) * sin).astype(o_ref.dtype)


# ---- sequences_outermost ----

"""Has the sequences outermost: the tables come in once for each of them, and that is little.

Stars: 3
"""


def rope(x, cos, sin, *, bn, bt):
    B, N, T, H = x.shape
    table_spec = pl.BlockSpec((bt, H // 2), lambda b, t, n: (t, 0))
    x_spec = pl.BlockSpec((1, bn, bt, H), lambda b, t, n: (b, n, t, 0))

    def kernel(x_ref, cos_ref, sin_ref, o_ref):
        rope_kernel(x_ref.at[0], cos_ref, sin_ref, o_ref.at[0])

    return pl.pallas_call(
        kernel,
        grid=(B, pl.cdiv(T, bt), N // bn),
        in_specs=[x_spec, table_spec, table_spec],
        out_specs=x_spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, cos, sin)
