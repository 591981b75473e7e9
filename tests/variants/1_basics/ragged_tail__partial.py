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
