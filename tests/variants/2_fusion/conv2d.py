"""Right kernels of conv2d in other styles: see docs/authoring.md."""

# ---- one_product ----

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


# ---- row_by_row ----

"""Makes one row of the result at a time, and sums its taps by jax.lax.dot_general.

Stars: 2, since products of one row leave the matrix units waiting for the next weights.
"""


def conv2d_kernel(x_ref, w_ref, o_ref):
    _, bh, Q, _ = o_ref.shape
    KH, KW, _, _ = w_ref.shape

    @pl.loop(0, bh)
    def _(row):
        total = 0
        for dy in range(KH):
            pixels = x_ref[0, row + dy]
            for dx in range(KW):
                total += jax.lax.dot_general(
                    pixels[dx : dx + Q],
                    w_ref[dy, dx],
                    (((1,), (0,)), ((), ())),
                    preferred_element_type=jnp.float32,
                )
        o_ref[0, row] = total.astype(o_ref.dtype)
