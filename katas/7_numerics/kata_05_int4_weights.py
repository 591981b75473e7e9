"""Multiply by int4 weights: each group of rows has a scale and a zero point.

Goal
    Write the kernel of x @ w, where x is bfloat16 and w is int4. Each group of rows has
    a zero point and a float32 scale for each column. Multiply integers, and apply each
    group's scale to its sum. Accumulate in float32.

Concept
    For each token that it generates, a model reads all of its weights for a few rows of
    x. The weights' bytes determine the time, and int4 has a quarter of bfloat16's. For
    32 rows, K = N = 8192, on a v5e:

        weights     bytes      at 819 GB/s
        bfloat16    128 MiB    164 µs
        int8         64 MiB     82 µs
        int4         32 MiB     41 µs; this kernel, with its casts: 58 µs

    jnp.int4 is a dtype like any other. Its numbers range from -8 to 7, two to a byte in
    HBM and in VMEM. The matrix units of these chips can't multiply int4 by bfloat16, so
    the kernel casts a block to bfloat16, which is exact, once it is in VMEM.

    With 16 values, one scale for a whole column is too coarse. So every G rows of a
    column share one, 128 for example. They also share a zero point, the integer for 0.0:
    then a group uses all 16 values even if most of its weights have the same sign.

        weight = (w - zero) * scale

            w [K, N]              zero, scale [K / G, 1, N]

        ┌─────────────┐  ─┐
        │  group 0    │   ├─ G    z0, s0    x[:, 0:G]  @ (w[0:G]  - z0)  *  s0
        ├─────────────┤  ─┘                         +
        │  group 1    │         z1, s1    x[:, G:2G] @ (w[G:2G] - z1)  *  s1
        ├─────────────┤                             +
        │  group 2    │         z2, s2            ...

    Both now depend on k, but not within a group. An operand of the matrix unit has 8
    bits. w - zero, from -15 to 15, fits: subtract in int32, since int4 would wrap
    around, and cast. A scaled weight doesn't fit, since the scale has 24 bits, and to
    round each weight is one rounding too many. So scale the group's sum.

    zero could leave the sum, too, as in int8_matmul: times the sum of x's columns in the
    group, which the kernel would have to add up. That is right, and about as fast.

Shapes
    name        dtype[dims]        memory space   Ref's shape       block
    x_ref       bfloat16[M, K]     VMEM           (M, bk)           (0, k)
    w_ref       int4[K, N]         VMEM           (bk, bn)          (k, j)
    zero_ref    int32[S, 1, N]     VMEM           (bk / G, 1, bn)   (k, 0, j)
    scale_ref   float32[S, 1, N]   VMEM           (bk / G, 1, bn)   (k, 0, j)
    o_ref       float32[M, N]      VMEM           (M, bn)           (0, j)

    The grid is (N / bn, K / bk). G is K / S, and divides bk. o_ref is the same
    block in all steps of k, so it can hold the sums.

Try
    pytest -k int4_weights           stuck?  kata hint int4_weights

Needs     int8_matmul, loop_in_the_body
Read on   AWQ: Activation-aware Weight Quantization, https://arxiv.org/abs/2306.00978
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, BFloat16, Float32, Int4, Int32


def int4_weights_spec(
    x: BFloat16[Array, "M K"],
    w: Int4[Array, "K N"],
    zero: Int32[Array, "S 1 N"],
    scale: Float32[Array, "S 1 N"],
) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    S, _, N = scale.shape
    weights = (w.reshape(S, -1, N).astype(scale.dtype) - zero) * scale
    return x.astype(scale.dtype) @ weights.reshape(-1, N)


def int4_weights_kernel(x_ref, w_ref, zero_ref, scale_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "for each group of rows: subtract zero_ref, multiply, scale the group's sum and add it to o_ref"
    )
    # END SOLUTION


def int4_weights(
    x: BFloat16[Array, "M K"],
    w: Int4[Array, "K N"],
    zero: Int32[Array, "S 1 N"],
    scale: Float32[Array, "S 1 N"],
    *,
    bn: int = 512,
    bk: int = 512,
) -> Float32[Array, "M N"]:
    """Launch: all rows of x at once; a step has as many groups of scales as of weights."""
    M, K = x.shape
    S, _, N = scale.shape
    of_groups = pl.BlockSpec((bk * S // K, 1, bn), lambda j, k: (k, 0, j))
    return pl.pallas_call(
        int4_weights_kernel,
        grid=(N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((M, bk), lambda j, k: (0, k)),
            pl.BlockSpec((bk, bn), lambda j, k: (k, j)),
            of_groups,
            of_groups,
        ],
        out_specs=pl.BlockSpec((M, bn), lambda j, k: (0, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="int4_weights",
    )(x, w, zero, scale)


# ---- Given: inputs and helpers. ----


def any_bytes(key, rows, columns):
    """Any of the 256 integers, made of few random ones: rows differ, and so do columns."""
    keys = jax.random.split(key, 3)
    row, column, factor = (
        jax.random.bits(one, shape, "uint8")
        for one, shape in zip(keys, ((rows, 1), (1, columns), (1, columns)), strict=True)
    )
    return jax.lax.bitcast_convert_type((row ^ column) * (factor | 1), jnp.int8)


def int4_weights_inputs(key, *, M, N, K, S, dtype):
    """All sixteen integers; zero points and scales that differ from group to group."""
    keys = jax.random.split(key, 4)
    x = jax.random.normal(keys[0], (M, K)).astype(dtype)
    w = (any_bytes(keys[1], K, N) >> 4).astype(jnp.int4)
    zero = jax.random.randint(keys[3], (S, 1, N), -8, 8, jnp.int32)
    return x, w, zero, jnp.exp(jax.random.normal(keys[2], (S, 1, N), jnp.float32)) / 8


def test_int4_weights(hidden_case):
    hidden_case.grade(int4_weights)
