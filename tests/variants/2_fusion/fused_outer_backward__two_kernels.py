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
