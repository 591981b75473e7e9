"""Right kernels of layer_norm_residual in other styles: see docs/authoring.md."""

# ---- jax_nn ----

"""Standardizes with jax.nn, with a variance that it is given: its own is the shortcut.

Stars: 3
"""


def layer_norm_residual_kernel(x_ref, r_ref, w_ref, b_ref, h_ref, y_ref):
    h = x_ref[...].astype(jnp.float32) + r_ref[...].astype(jnp.float32)
    h_ref[...] = h.astype(h_ref.dtype)
    variance = jnp.var(h, axis=1, keepdims=True)
    y = jax.nn.standardize(h, axis=1, variance=variance, epsilon=EPS)
    y_ref[...] = (y * w_ref[...] + b_ref[...]).astype(y_ref.dtype)


# ---- scaled_row ----

"""Divides by the deviation, and stores both results at the end.

Stars: 3
"""


def layer_norm_residual_kernel(x_ref, r_ref, w_ref, b_ref, h_ref, y_ref):
    h = x_ref[...].astype(jnp.float32) + r_ref[...]
    centred = h - h.sum(axis=1, keepdims=True) / h.shape[1]
    deviation = jnp.sqrt((centred**2).sum(axis=1, keepdims=True) / h.shape[1] + EPS)
    y_ref[...] = (centred / deviation * w_ref[0] + b_ref[0]).astype(y_ref.dtype)
    h_ref[...] = h.astype(h_ref.dtype)


# ---- sum_in_scratch ----

"""Keeps the float32 sum in scratch, and has a grid spec, a dictionary of results and no promises.

Stars: 3
"""


def layer_norm_residual(x, r, w, b, *, bm):
    def kernel(x_ref, r_ref, w_ref, b_ref, out, sum_ref):
        sum_ref[...] = x_ref[...].astype(jnp.float32) + r_ref[...].astype(jnp.float32)
        out["h"][...] = sum_ref[...].astype(x.dtype)
        sum_ref[...] -= jnp.mean(sum_ref[...], axis=1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(sum_ref[...] ** 2, axis=1, keepdims=True) + EPS)
        out["y"][...] = (sum_ref[...] * scale * w_ref[...] + b_ref[...]).astype(x.dtype)

    N = x.shape[1]
    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    row = pl.BlockSpec((1, N), lambda i: (0, 0))
    out = pl.pallas_call(
        kernel,
        out_shape={"h": x, "y": x},
        grid_spec=pl.GridSpec(
            grid=(pl.cdiv(len(x), bm),),
            in_specs=[rows, rows, row, row],
            out_specs={"h": rows, "y": rows},
            scratch_shapes=[pltpu.VMEM((bm, N), jnp.float32)],
        ),
    )(x, r, w, b)
    return out["h"], out["y"]
