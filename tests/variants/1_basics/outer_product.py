"""Right kernels of outer_product in other styles: see docs/authoring.md."""

# ---- broadcast ----

"""Broadcasts both operands before it multiplies them.

Stars: 3
"""

import jax.numpy as jnp


def outer_product_kernel(x_ref, y_ref, o_ref):
    column = jnp.broadcast_to(x_ref[:, :], o_ref.shape)
    row = jnp.broadcast_to(y_ref[:, :], o_ref.shape)
    o_ref[:, :] = column * row


# ---- columns_first ----

"""Goes through the columns of blocks first, with a list of results.

Stars: 2, since a block of x, which is padded to 128 lanes, is fetched again for each of them.
"""


def outer_product(x, y, *, bm, bn):
    m, n = x.shape[0], y.shape[1]
    (result,) = pl.pallas_call(
        outer_product_kernel,
        grid=(n // bn, m // bm),
        in_specs=[
            pl.BlockSpec((bm, 1), lambda j, i: (i, 0)),
            pl.BlockSpec((1, bn), lambda j, i: (0, j)),
        ],
        out_specs=[pl.BlockSpec((bm, bn), lambda j, i: (i, j))],
        out_shape=[jax.ShapeDtypeStruct((m, n), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=(pltpu.PARALLEL, pltpu.PARALLEL)),
    )(x, y)
    return result


# ---- grid_spec ----

"""A GridSpec in the launch; the kernel takes x as a vector and multiplies by a row.

Stars: 3
"""


def outer_product_kernel(x_ref, y_ref, o_ref):
    row = y_ref[0, :]
    o_ref[...] = x_ref[...] * row[None, :]


def outer_product(x, y, *, bm, bn):
    (m, _), (_, n) = x.shape, y.shape
    return pl.pallas_call(
        outer_product_kernel,
        grid_spec=pl.GridSpec(
            grid=(m // bm, n // bn),
            in_specs=[
                pl.BlockSpec((bm, 1), lambda i, j: (i, 0)),
                pl.BlockSpec((1, bn), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        ),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
    )(x, y)
