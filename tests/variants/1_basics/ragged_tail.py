"""Right kernels of ragged_tail in other styles: see docs/authoring.md."""

# ---- last_block_only ----

"""Masks in the last step only, with a row of columns and lax.select.

Stars: 3
"""


def ragged_tail_kernel(x_ref, o_ref, *, n):
    j, last = pl.program_id(1), pl.num_programs(1) - 1
    bm, bn = x_ref.shape

    @pl.when(j == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    @pl.when(j < last)
    def _():
        o_ref[...] += jnp.sum(x_ref[...].astype(jnp.float32), axis=1, keepdims=True)

    @pl.when(j == last)
    def _():
        x = x_ref[...].astype(jnp.float32)
        column = j * bn + jax.lax.broadcasted_iota(jnp.int32, (1, bn), 1)
        x = jax.lax.select(jnp.broadcast_to(column < n, (bm, bn)), x, jnp.zeros_like(x))
        o_ref[...] += jnp.sum(x, axis=1, keepdims=True)


# ---- partial ----

"""A kernel made with functools.partial, and a grid rounded up by hand.

Stars: 3
"""

import functools


def masked_sum(x_ref, o_ref, *, n, bn):
    j = pl.program_id(1)
    start = j * bn
    column = start + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, dimension=1)
    x = jnp.where(column >= n, jnp.zeros((), x_ref.dtype), x_ref[:, :])
    total = x.astype(jnp.float32).sum(axis=1, keepdims=True)
    o_ref[:, :] = jax.lax.cond(j == 0, lambda: total, lambda: o_ref[:, :] + total)


def ragged_tail(x, *, bm, bn):
    M, N = x.shape
    return pl.pallas_call(
        functools.partial(masked_sum, n=N, bn=bn),
        grid=((M + bm - 1) // bm, (N + bn - 1) // bn),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((bm, 1), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M, 1), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)


# ---- sum_where ----

"""Has jnp.sum leave out the columns behind the end: its `where`.

Stars: 3
"""


def ragged_tail_kernel(x_ref, o_ref, *, n):
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    left = n - j * x_ref.shape[1]
    inside = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) < left
    x = x_ref[...].astype(jnp.float32)
    o_ref[...] += jnp.sum(x, axis=1, keepdims=True, where=inside)
