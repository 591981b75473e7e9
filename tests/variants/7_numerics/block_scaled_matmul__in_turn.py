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
