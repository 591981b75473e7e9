"""Right kernels of grouped_matmul_vjp in other styles: see docs/authoring.md."""

# ---- float0 ----

"""Gives a float0 cotangent for the sizes, as JAX's rules ask for.

Stars: 3
"""

import numpy as np


def grouped_matmul_vjp(x, w, group_sizes, dy, *, tm, tk, tn):
    tiles = {"tm": tm, "tk": tk, "tn": tn}

    @jax.custom_vjp
    def matmul(x, w, sizes):
        return grouped_matmul(x, w, sizes, **tiles)

    def forward(x, w, sizes):
        return grouped_matmul(x, w, sizes, **tiles), (x, w, sizes)

    def backward(saved, dy):
        x, w, sizes = saved
        turned = {"tm": tm, "tk": tn, "tn": tk}
        return (
            grouped_matmul(dy, w, sizes, **turned, transpose_w=True),
            transposed_grouped_matmul(x, dy, sizes, **tiles),
            np.zeros(sizes.shape, jax.dtypes.float0),
        )

    matmul.defvjp(forward, backward)
    y, pullback = jax.vjp(matmul, x, w, group_sizes)
    dx, dw, _ = pullback(dy)
    return y, dx, dw


def grouped_matmul(x, w, group_sizes, *, tm, tk, tn, transpose_w=False):
    M, K = x.shape
    N = w.shape[1] if transpose_w else w.shape[2]
    *tables, num_visits = group_metadata(group_sizes, M=M, tm=tm)
    w_spec = pl.BlockSpec((None, tk, tn), lambda j, v, k, offsets, ids, tiles: (ids[v], k, j))
    if transpose_w:
        w_spec = pl.BlockSpec((None, tn, tk), lambda j, v, k, offsets, ids, tiles: (ids[v], j, k))

    def kernel(*refs):
        grouped_matmul_kernel(*refs, w_dim=int(transpose_w))

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[pl.BlockSpec((tm, tk), lambda j, v, k, *t: (t[2][v], k)), w_spec],
            out_specs=pl.BlockSpec((tm, tn), lambda j, v, k, *t: (t[2][v], j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
    )(*tables, x, w)


# ---- nondiff ----

"""Rules of module level, with group_sizes and the tile sizes in a dictionary of options.

Stars: 3
"""

import functools


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def differentiable(x, w, group_sizes, tiles):
    tm, tk, tn = tiles
    return grouped_matmul(x, w, group_sizes, tm=tm, tk=tk, tn=tn)


def forward_rule(x, w, group_sizes, tiles):
    return differentiable(x, w, group_sizes, tiles), (x, w, group_sizes)


def backward_rule(tiles, saved, dy):
    tm, tk, tn = tiles
    x, w, group_sizes = saved
    dx = grouped_matmul(dy, w, group_sizes, tm=tm, tk=tn, tn=tk, transpose_w=True)
    dw = transposed_grouped_matmul(x, dy, group_sizes, tm=tm, tk=tk, tn=tn)
    return dx, dw, None


differentiable.defvjp(forward_rule, backward_rule)


def grouped_matmul_vjp(x, w, group_sizes, dy, *, tm, tk, tn):
    y, pullback = jax.vjp(lambda x, w: differentiable(x, w, group_sizes, (tm, tk, tn)), x, w)
    return (y, *pullback(dy))


def grouped_matmul(x, w, group_sizes, *, tm, tk, tn, transpose_w=False):
    M, K = x.shape
    N = w.shape[1] if transpose_w else w.shape[2]
    *tables, num_visits = group_metadata(group_sizes, M=M, tm=tm)

    def w_block(j, visit, k, offsets, ids, tiles):
        return (ids[visit], j, k) if transpose_w else (ids[visit], k, j)

    return pl.pallas_call(
        functools.partial(grouped_matmul_kernel, w_dim=1 if transpose_w else 0),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, visit, k, *t: (t[2][visit], k)),
                pl.BlockSpec((None, tn, tk) if transpose_w else (None, tk, tn), w_block),
            ],
            out_specs=pl.BlockSpec((tm, tn), lambda j, visit, k, *t: (t[2][visit], j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
    )(*tables, x, w)
