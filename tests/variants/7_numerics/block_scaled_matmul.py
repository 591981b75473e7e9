"""Right kernels of block_scaled_matmul in other styles: see docs/authoring.md."""

# ---- a_column_each ----

"""Multiplies the column of x's scales by each of w's, and scales 128 columns of the sums by it.

The XLU spreads a column for each 128 columns instead of one.

Stars: 2
"""


def block_scaled_matmul_kernel(w_scales_ref, x_ref, w_ref, x_scales_ref, o_ref):
    j, k = pl.program_id(1), pl.program_id(2)
    groups, columns = x_ref.shape[1] // 128, o_ref.shape[1] // 128

    @pl.when(k == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    turned = jnp.swapaxes(x_scales_ref[...], 0, 1)
    for group in range(groups):
        inside = pl.ds(group * 128, 128)
        sums = jnp.dot(x_ref[:, inside], w_ref[inside, :], preferred_element_type=jnp.float32)
        for column in range(columns):
            here = slice(column * 128, (column + 1) * 128)
            of_w = w_scales_ref[k * groups + group, j * columns + column]
            o_ref[:, here] += sums[:, here] * (turned[:, group][:, None] * of_w)


# ---- in_turn ----

"""Scales rows of the sums, then columns; one grid axis for the blocks of the result.

Stars: 3
"""

import functools


def block_scaled_matmul_kernel(w_scales_ref, x_ref, w_ref, x_scales_ref, o_ref, *, across):
    j, k = pl.program_id(0) % across, pl.program_id(1)
    groups, columns = x_ref.shape[1] // GROUP, o_ref.shape[1] // GROUP
    turned = x_scales_ref[...].T

    @pl.when(k == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    for group in range(groups):
        start = group * GROUP
        sums = jax.lax.dot_general(
            x_ref[:, start : start + GROUP],
            w_ref[start : start + GROUP],
            (((1,), (0,)), ((), ())),
            preferred_element_type=jnp.float32,
        )
        of_w = [w_scales_ref[k * groups + group, j * columns + c] for c in range(columns)]
        row = jnp.concatenate([jnp.broadcast_to(t, (1, GROUP)) for t in of_w], axis=1)
        o_ref[...] += sums * row * turned[:, start // GROUP][:, None]


def block_scaled_matmul(x, w, x_scales, w_scales, *, bm, bn, bk):
    (M, K), (_, N) = x.shape, w.shape
    across = N // bn
    return pl.pallas_call(
        functools.partial(block_scaled_matmul_kernel, across=across),
        grid=(M // bm * across, K // bk),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec((bm, bk), lambda b, k: (b // across, k)),
            pl.BlockSpec((bk, bn), lambda b, k: (k, b % across)),
            pl.BlockSpec((bk // GROUP, bm), lambda b, k: (k, b // across)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda b, k: (b // across, b % across)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(w_scales, x, w, x_scales)


# ---- one_store ----

"""Adds up the block's groups in a value, and makes the row of scales by comparing lanes.

Stars: 3
"""


def block_scaled_matmul_kernel(w_scales_ref, x_ref, w_ref, x_scales_ref, o_ref):
    j, k = pl.program_id(1), pl.program_id(2)
    groups, columns = x_ref.shape[1] // GROUP, o_ref.shape[1] // GROUP
    lane = jax.lax.broadcasted_iota(jnp.int32, (1, o_ref.shape[1]), 1)
    turned = x_scales_ref[...].T
    total = jnp.where(k == 0, 0.0, o_ref[...])
    for group in range(groups):
        row = jnp.zeros((1, o_ref.shape[1]), jnp.float32)
        for column in range(columns):
            of_w = w_scales_ref[k * groups + group, j * columns + column]
            row = jnp.where(lane // GROUP == column, of_w, row)
        inside = pl.ds(group * GROUP, GROUP)
        sums = jnp.dot(
            x_ref[:, inside].astype(jnp.bfloat16),
            w_ref[inside, :].astype(jnp.bfloat16),
            preferred_element_type=jnp.float32,
        )
        total += sums * (turned[:, group : group + 1] * row)
    o_ref[...] = total
