"""Broadcasts both operands before it multiplies them.

Stars: 3
"""

import jax.numpy as jnp


def outer_product_kernel(x_ref, y_ref, o_ref):
    column = jnp.broadcast_to(x_ref[:, :], o_ref.shape)
    row = jnp.broadcast_to(y_ref[:, :], o_ref.shape)
    o_ref[:, :] = column * row
