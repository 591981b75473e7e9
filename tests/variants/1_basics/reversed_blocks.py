"""Right kernels of reversed_blocks in other styles: see docs/authoring.md."""

# ---- any_order ----

"""Takes the blocks in an order of its own: both maps depend on the step, and meet in the middle.

Stars: 3
"""

import jax.numpy as jnp


def reversed_blocks(x, *, bn):
    steps = x.shape[0] // bn
    last = steps - 1

    def read(i):
        half = jax.lax.div(i, 2)
        return (jnp.where(jax.lax.rem(i, 2) == 0, half, last - half),)

    def write(i):
        (block,) = read(i)
        return (last - block,)

    return pl.pallas_call(
        reversed_blocks_kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec((bn,), read)],
        out_specs=pl.BlockSpec((bn,), write),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


# ---- write_backward ----

"""Reads the blocks in order and writes them from the end; index maps that return a number.

Stars: 3
"""


def reversed_blocks(x, *, bn):
    steps = x.shape[0] // bn
    return pl.pallas_call(
        reversed_blocks_kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec((bn,), lambda i: i)],
        out_specs=pl.BlockSpec((bn,), lambda i: steps - 1 - i),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)
