"""Right kernels of blocked_transpose in other styles: see docs/authoring.md."""

# ---- strips ----

"""Transposes 128 rows at a time, with static slices of Refs.

Stars: 3
"""


def blocked_transpose_kernel(x_ref, o_ref):
    rows = x_ref.shape[0]
    for start in range(0, rows, 128):
        end = min(start + 128, rows)
        o_ref[:, start:end] = jax.lax.transpose(x_ref[start:end, :], (1, 0))


# ---- swapaxes ----

"""Transposes with jnp.swapaxes, in a grid that goes through the result's blocks row by row.

Stars: 3
"""

import jax.numpy as jnp


def blocked_transpose_kernel(x_ref, o_ref):
    o_ref[:, :] = jnp.swapaxes(x_ref[:, :], 0, 1)


def blocked_transpose(x, *, bm, bn):
    m, n = x.shape
    return pl.pallas_call(
        blocked_transpose_kernel,
        grid=(n // bn, m // bm),
        in_specs=[pl.BlockSpec((bm, bn), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((bn, bm), lambda j, i: (j, i)),
        out_shape=jax.ShapeDtypeStruct((n, m), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x)
