"""Sum up each row from its start to every element: a product with ones, and a carry.

Goal
    Write the body of a kernel for running sums, jnp.cumsum(x, axis=1), in float32:

        o[m, n] = x[m, 0] + x[m, 1] + ... + x[m, n]

    A block has bm rows and bn columns. N need not be a multiple of bn. The launch is
    given.

Concept
    jnp.cumsum can't be lowered for a TPU: neighbours are in adjacent lanes of a
    register, and lanes can't read each other. A loop over columns would use one lane of
    128 at a time. But a running sum is linear, so it is a product with a fixed matrix,
    which the matrix unit computes fast:

                            n ->
                        1 1 1 1 1        row k has ones from column k on: x[m, k] is
        x[m, :]  @   k  . 1 1 1 1        in the sums of its own column and of all
                        . . 1 1 1        columns to the right of it
                        . . . 1 1

    That is bn multiplications for each element instead of one addition. With bn = 128
    they cost little; a whole row of 4096 at once would cost 32 times as much. So blocks
    are narrow, and a *carry* brings in the part to their left: one number for each row,
    the sum of all earlier blocks.

         x   [ block 0 | block 1 | block 2 ]
                  |   ^      |   ^
                  +---+      +---+          carry: a column of scratch, 0 at first

    The matrix unit multiplies bfloat16. By default it rounds float32 operands, and
    bfloat16 keeps 8 bits of 24. The ones lose nothing, but x does. precision="highest"
    splits both operands into three parts of 8 bits, hi + mid + lo, and adds up the six
    products that matter. Half of these are with parts of the ones that are all zero:

        default                 1 product    x rounded to 8 bits    329 µs
        "highest"               6 products   all 24 bits            339 µs
        three parts of x alone  3 products   all 24 bits            329 µs
        HBM alone, 256 MiB                                          327 µs

    These are predictions for x[8192, 4090]. XLA compiles jnp.cumsum to ten loops. They
    move 1925 MiB, which alone takes 2465 µs.

    If N ends inside a block, the rest of it is garbage, and 0 times NaN is NaN: in the
    product, garbage reaches columns to its left, although the matrix has zeros there.

Shapes
    name        dtype[dims]     memory space   Ref's shape   block
    x_ref       float32[M, N]   VMEM           (bm, bn)      (i, j)
    o_ref       float32[M, N]   VMEM           (bm, bn)      (i, j)
    carry_ref   float32[bm, 1]  VMEM scratch   (bm, 1)       -

    The grid is (M / bm, pl.cdiv(N, bn)).

Try
    pytest -k cumulative_sum        stuck?  kata hint cumulative_sum

Needs     row_sum, ragged_tail, tiled_matmul
Read on   Prefix Sums and Their Applications, https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float32


def cumulative_sum_spec(x: Float32[Array, "M N"]) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.cumsum(x, axis=1)


def cumulative_sum_kernel(x_ref, o_ref, carry_ref, *, N):
    # BEGIN SOLUTION
    j, bn = pl.program_id(1), x_ref.shape[1]

    @pl.when(j == 0)
    def _():
        carry_ref[...] = jnp.zeros_like(carry_ref)

    column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    x = jnp.where(column < N - j * bn, x_ref[...], 0)
    k = jax.lax.broadcasted_iota(jnp.int32, (bn, bn), 0)
    n = jax.lax.broadcasted_iota(jnp.int32, (bn, bn), 1)
    ones = jnp.where(k <= n, 1.0, 0.0).astype(jnp.bfloat16)
    hi = x.astype(jnp.bfloat16)
    mid = (x - hi).astype(jnp.bfloat16)
    lo = (x - hi - mid).astype(jnp.bfloat16)
    sums = carry_ref[...]
    for part in (lo, mid, hi):
        sums += jnp.dot(part, ones, preferred_element_type=jnp.float32)
    o_ref[...] = sums
    carry_ref[...] = sums[:, bn - 1 :]
    # END SOLUTION


def cumulative_sum(
    x: Float32[Array, "M N"], *, bm: int = 1024, bn: int = 128
) -> Float32[Array, "M N"]:
    """Launch: each block of rows from left to right."""
    M, N = x.shape
    spec = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    return pl.pallas_call(
        functools.partial(cumulative_sum_kernel, N=N),
        grid=(M // bm, pl.cdiv(N, bn)),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((bm, 1), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="cumulative_sum",
    )(x)


# ---- Given: inputs and helpers. ----


def cumulative_sum_inputs(key, *, M, N, dtype):
    """Numbers that need all 24 bits, with a different trend in each row."""
    x_key, trend_key = jax.random.split(key)
    trend = jax.random.normal(trend_key, (M, 1)) + jnp.linspace(-1, 1, N)
    return ((jax.random.normal(x_key, (M, N)) + trend).astype(dtype),)


def test_cumulative_sum(hidden_case):
    hidden_case.grade(cumulative_sum)
