"""Right kernels of fused_outer_backward in other styles: see docs/authoring.md."""

# ---- signs ----

"""Masks by comparing signs, starts its sums under pl.when.

Stars: 3
"""


def fused_outer_backward_kernel(x_ref, y_ref, dz_ref, dx_ref, dy_ref, dx_sum_ref, dy_sum_ref):
    i, j = pl.program_id(0), pl.program_id(1)
    bn = y_ref.shape[1]
    here = pl.ds(pl.multiple_of(j * bn, 128), bn)

    @pl.when(j == 0)
    def _():
        dx_sum_ref[...] = jnp.zeros_like(dx_sum_ref)

    @pl.when(i == 0)
    def _():
        dy_sum_ref[:, here] = jnp.zeros((1, bn), jnp.float32)

    x, y = x_ref[...].astype(jnp.float32), y_ref[...].astype(jnp.float32)
    slope = jnp.where(jnp.sign(x) * jnp.sign(y) > 0, dz_ref[...].astype(jnp.float32), 0)
    dx_sum_ref[...] += jnp.sum(slope * y, axis=1, keepdims=True)
    dy_sum_ref[:, here] += jnp.sum(slope * x, axis=0, keepdims=True)
    dx_ref[...] = dx_sum_ref[...].astype(dx_ref.dtype)
    dy_ref[:, here] = dy_sum_ref[:, here].astype(dy_ref.dtype)


# ---- two_kernels ----

"""Has a kernel for each gradient.

Stars: 2, since both read dz.
"""


def gradient(x, y, dz, *, bm, bn, axis):
    """dx for axis 1, dy for axis 0: sums over the axis of dz, where it passes, times a factor."""
    M, N = dz.shape

    def kernel(x_ref, y_ref, dz_ref, o_ref, sum_ref):
        step = pl.program_id(1)
        x, y, dz = (ref[...].astype(jnp.float32) for ref in (x_ref, y_ref, dz_ref))
        product = jnp.where(x * y > 0, dz, 0) * (y if axis else x)
        total = jnp.sum(product, axis=axis, keepdims=True)
        sum_ref[...] = jnp.where(step == 0, total, sum_ref[...] + total)
        o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    if axis:
        grid, at = (M // bm, N // bn), lambda i, j: (i, j)
        block, out = (bm, 1), pl.BlockSpec((bm, 1), lambda i, j: (i, 0))
    else:
        grid, at = (N // bn, M // bm), lambda j, i: (i, j)
        block, out = (1, bn), pl.BlockSpec((1, bn), lambda j, i: (0, j))
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[
            pl.BlockSpec((bm, 1), lambda *ij: (at(*ij)[0], 0)),
            pl.BlockSpec((1, bn), lambda *ij: (0, at(*ij)[1])),
            pl.BlockSpec((bm, bn), at),
        ],
        out_specs=out,
        out_shape=jax.ShapeDtypeStruct((M, 1) if axis else (1, N), x.dtype),
        scratch_shapes=[pltpu.VMEM(block, jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x, y, dz)


def gradients(x, y, dz, *, bm, bn, semantics):
    return (
        gradient(x, y, dz, bm=bm, bn=bn, axis=1),
        gradient(x, y, dz, bm=bm, bn=bn, axis=0),
    )
