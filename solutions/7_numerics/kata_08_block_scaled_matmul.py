"""Multiply fp8 matrices whose scales change along the dimension that is summed over.

Goal
    Write the body of a kernel for x @ w with both in fp8. x has a scale for each row
    and each 128 numbers along K; w has one for each 128 x 128 block. Apply each scale
    where it is constant. The sums are kept in o_ref.

Concept
    A single scale for a whole matrix has to fit its largest number. With a few
    outliers, the other numbers fall below the grid of e4m3. So DeepSeek-V3 divides x
    and w into pieces, and scales each by its own largest number:

            x [M, K]                      w [K, N]
              128     128                   128       128
            +-------+-------+             +---------+---------+
        row | s00   | s01   |         128 |  t00    |  t01    |
            | s10   | s11   |             |         |         |
            | s20   | s21   |             +---------+---------+
              ...     ...             128 |  t10    |  t11    |

        y[m, n] = sum over k of   x[m, k] * s[m, k // 128]
                                * w[k, n] * t[k // 128, n // 128]

    You may move a factor out of a sum in which it is constant. In fused_matmul, you
    could scale the sum over all of K. Here both factors change every 128 terms: scale
    the sum of 128 products, in float32, before you add it to the others. You may scale
    the operands only if that is exact. These scales can be any numbers, so x * s in
    bfloat16 is one rounding too many.

    A v5e's matrix unit, 128 x 128, adds up 128 terms at once, so it loses no time. In a
    matrix unit of 256 x 256, half of the rows are idle. Predicted for 4096 x 7168 by
    7168 x 4096 (XLA, in float32: 7.4 ms on a v5e):

                                        v5e       v6e      tpu7x
        scaled every 128 terms          1.31 ms   657 µs   508 µs
        without scales                  1.28 ms   359 µs   185 µs
        both cast to float32, scaled    1.44 ms   727 µs   531 µs

    s scales rows of the sums, so it has to be a column. Stored as [M, K / 128], a block
    of s would fill 8 lanes of 128. So it is stored as [K / 128, M]: transpose its block
    once a step. t consists of scalars; every step sees all of them, since w_scales
    isn't blocked. Make a row of bn numbers from them, with jnp.full and jnp.concatenate
    for example: spreading a row down the sublanes is cheap; spreading a column across
    lanes uses the XLU.

Shapes
    name           dtype[dims]           memory space   Ref's shape     block
    w_scales_ref   float32[G, J]         SMEM           (G, J)          whole
    x_ref          float8_e4m3fn[M, K]   VMEM           (bm, bk)        (i, k)
    w_ref          float8_e4m3fn[K, N]   VMEM           (bk, bn)        (k, j)
    x_scales_ref   float32[G, M]         VMEM           (bk/128, bm)    (k, i)
    o_ref          float32[M, N]         VMEM           (bm, bn)        (i, j)

    G = K / 128, J = N / 128. The grid is (M / bm, N / bn, K / bk).

Try
    pytest -k block_scaled_matmul          stuck?  kata hint block_scaled_matmul

Needs     int4_weights, fp8_matmul
Read on   DeepSeek-V3 Technical Report, 3.3, https://arxiv.org/abs/2412.19437
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float8e4m3fn, Float32

GROUP = 128  # numbers along K, or columns of w, that share a scale


def block_scaled_matmul_spec(
    x: Float8e4m3fn[Array, "M K"],
    w: Float8e4m3fn[Array, "K N"],
    x_scales: Float32[Array, "G M"],
    w_scales: Float32[Array, "G J"],
) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    scaled_x = x.astype(x_scales.dtype) * jnp.repeat(x_scales.T, GROUP, axis=1)
    of_rows = jnp.repeat(w_scales, GROUP, axis=0)
    scaled_w = w.astype(w_scales.dtype) * jnp.repeat(of_rows, GROUP, axis=1)
    return scaled_x @ scaled_w


def block_scaled_matmul_kernel(w_scales_ref, x_ref, w_ref, x_scales_ref, o_ref):
    j, k = pl.program_id(1), pl.program_id(2)
    groups, columns = x_ref.shape[1] // GROUP, o_ref.shape[1] // GROUP

    @pl.when(k == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    # BEGIN SOLUTION
    x_scales = x_scales_ref[...].T

    for group in range(groups):
        inside = slice(group * GROUP, (group + 1) * GROUP)
        part = jnp.dot(x_ref[:, inside], w_ref[inside, :], preferred_element_type=jnp.float32)
        of_columns = [
            jnp.full((1, GROUP), w_scales_ref[k * groups + group, j * columns + column])
            for column in range(columns)
        ]
        row = jnp.concatenate(of_columns, axis=1)
        o_ref[...] += part * x_scales[:, group : group + 1] * row
    # END SOLUTION


def block_scaled_matmul(
    x: Float8e4m3fn[Array, "M K"],
    w: Float8e4m3fn[Array, "K N"],
    x_scales: Float32[Array, "G M"],
    w_scales: Float32[Array, "G J"],
    *,
    bm: int = 256,
    bn: int = 512,
    bk: int = 1024,
) -> Float32[Array, "M N"]:
    """Launch: a tiled matmul.

    bk is K, or a multiple of 1024, so that a block of x_scales has a multiple of 8 rows.
    """
    M, K = x.shape
    _, N = w.shape
    return pl.pallas_call(
        block_scaled_matmul_kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            pl.BlockSpec((bk // GROUP, bm), lambda i, j, k: (k, i)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="block_scaled_matmul",
    )(w_scales, x, w, x_scales)


# ---- Given: inputs and helpers. ----


def block_scaled_matmul_inputs(key, *, M, N, K, dtype):
    """Numbers that fill e4m3's range, and scales; the largest is 16 times the smallest."""
    keys = jax.random.split(key, 4)

    def quantised(key, shape):
        numbers = jnp.clip(128 * jax.random.normal(key, shape), -448, 448)
        return numbers.astype(jnp.float8_e4m3fn)

    def scales(key, shape):
        return 0.001 * jnp.exp2(jax.random.uniform(key, shape, minval=-2.0, maxval=2.0))

    x, w = quantised(keys[0], (M, K)), quantised(keys[1], (K, N))
    x_scales = scales(keys[2], (K // GROUP, M))
    w_scales = scales(keys[3], (K // GROUP, N // GROUP))
    return x, w, x_scales, w_scales


def test_block_scaled_matmul(hidden_case):
    hidden_case.grade(block_scaled_matmul)
