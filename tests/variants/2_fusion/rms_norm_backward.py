"""Right kernels of rms_norm_backward in other styles: see docs/authoring.md."""

# ---- last_block_only ----

"""Masks in the last block only, sums in scratch, and stores dw in the last step.

Stars: 3
"""


def rms_norm_gradients(x, w, dy, bm):
    M, N = x.shape
    steps, rest = pl.cdiv(M, bm), M % bm

    def kernel(x_ref, w_ref, dy_ref, dx_ref, dw_ref, sum_ref):
        i = pl.program_id(0)
        x, dy = x_ref[...].astype(jnp.float32), dy_ref[...].astype(jnp.float32)
        s = 1 / jnp.sqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPS)
        g = dy * w_ref[...]
        dx = s * (g - x * s * jnp.mean(g * x * s, axis=1, keepdims=True))
        dx_ref[...] = dx.astype(dx_ref.dtype)

        @pl.when(i == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        products = dy * x * s
        if rest:
            full = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) < rest
            products = jnp.where((i < steps - 1) | full, products, 0)
        sum_ref[...] += jnp.sum(products, axis=0, keepdims=True)

        @pl.when(i == steps - 1)
        def _():
            dw_ref[...] = sum_ref[...]

    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    row = pl.BlockSpec((1, N), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[rows, row, rows],
        out_specs=(rows, row),
        out_shape=(x, w),
        scratch_shapes=[pltpu.VMEM((1, N), jnp.float32)],
    )(x, w, dy)


# ---- ones_times_rows ----

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
