"""Multiply by MXFP4 weights: floats of four bits, and a power of two for each 32 of them.

Goal
    Write the kernel of x @ w, where x is bfloat16 and w is MXFP4. Decode a block of w in
    VMEM, scale it, and multiply the whole block at once. Accumulate in float32.

Concept
    A weight has four bits (e2m1): a sign, two bits of exponent, one of mantissa. Each 32
    weights along K share a byte s (e8m0), an exponent without mantissa or sign: the
    scale is 2**(s - 127).

        bits      0 00 0   0 00 1   0 01 0   0 01 1   0 10 0   0 10 1   0 11 0   0 11 1
        number    0        0.5      1        1.5      2        3        4        6

    For K = N = 8192, weights and scales are 34 MiB, which a v5e reads in 44 µs. But a
    kernel that widens each weight to an int32 and computes its number there takes
    178 µs for 32 rows: weights in bfloat16 would arrive in 164 µs.

    jnp.float4_e2m1fn is a dtype, but with jax 0.10.2, its casts compile only for tpu7x.
    A v5e converts e5m2 instead, a register with one instruction. Its bits have the same
    meaning, so e2m1's fit into it:

        e2m1              s e e m
        e5m2        s 0 0 0 e e m 0        2**14 times smaller

    An exponent counts from a bias: 1 in e2m1, 15 in e5m2. So each number becomes 2**14
    times smaller; also 0.5, which is subnormal in both. The scale can undo that.

    The vector unit shifts 32-bit words. pltpu.bitcast(bytes, jnp.uint32) reads four rows
    of bytes as one row of words, without moving a bit, and a bitcast to float8_e5m2
    makes them four rows again. So one shift moves weights in four bytes; a mask keeps
    the bits that belong there. As in packed_int4, the low bits of 32 rows of bytes are
    one group, and the high bits the next. If neighbours shared a byte, as in files, you
    would have to interleave rows.

        packed row r of 32:  s e e m │ s e e m      low: row r of group 2p
                             ───high─┼──low───      high: row r of group 2p + 1

    Where do the scales go? In block_scaled_matmul, on the sum of a group. Here, that is
    32 terms, a quarter of the matrix unit's rows: 95 µs. But a power of two changes
    only exponents, and bfloat16 has as many as float32. So scale the weights: 70 µs.

Shapes
    name         dtype[dims]      memory space   Ref's shape     block
    x_ref        bfloat16[M, K]   VMEM           (M, bk)         (0, k)
    packed_ref   uint8[P, N]      VMEM           (bk / 2, bn)    (k, j)
    scale_ref    uint8[S, N]      VMEM           (bk / 32, bn)   (k, j)
    o_ref        float32[M, N]    VMEM           (M, bn)         (0, j)

    The grid is (N / bn, K / bk). P is K / 2, S is K / 32. Scales are 2**-50 to 2**50.

Try
    pytest -k mxfp4_matmul           stuck?  kata hint mxfp4_matmul

Needs     packed_int4, block_scaled_matmul
Read on   Microscaling Data Formats for Deep Learning, https://arxiv.org/abs/2310.10537
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, BFloat16, Float32, UInt8

SHARING = 32  # how many weights along K share a scale


def mxfp4_matmul_spec(
    x: BFloat16[Array, "M K"], packed: UInt8[Array, "P N"], scale: UInt8[Array, "S N"]
) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    S, N = scale.shape
    wide = jnp.promote_types(x.dtype, jnp.float32)
    halves = jax.lax.bitcast_convert_type(packed, jnp.float4_e2m1fn)  # low, high
    pairs = halves.astype(wide).reshape(S // 2, SHARING, N, 2)
    groups = jnp.moveaxis(pairs, 3, 1).reshape(S, SHARING, N)
    powers = jax.lax.bitcast_convert_type(scale, jnp.float8_e8m0fnu).astype(wide)
    return x.astype(wide) @ (groups * powers[:, None, :]).reshape(-1, N)


def mxfp4_matmul_kernel(x_ref, packed_ref, scale_ref, o_ref):
    # BEGIN SOLUTION
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    words = pltpu.bitcast(packed_ref[...], jnp.uint32)
    signs, rest = jnp.uint32(0x80808080), jnp.uint32(0x0E0E0E0E)
    low = (words << 4) & signs | (words << 1) & rest
    high = words & signs | (words >> 3) & rest
    halves = [pltpu.bitcast(one, jnp.float8_e5m2) for one in (low, high)]

    exponents = scale_ref[...].astype(jnp.int32) + 14
    powers = jax.lax.bitcast_convert_type(exponents << 23, jnp.float32)
    groups = []
    for g in range(scale_ref.shape[0]):
        rows = slice(g // 2 * SHARING, (g // 2 + 1) * SHARING)
        w = halves[g % 2][rows].astype(jnp.float32) * powers[g : g + 1]
        groups.append(w.astype(jnp.bfloat16))
    w = jnp.concatenate(groups)
    o_ref[...] += jnp.dot(x_ref[...], w, preferred_element_type=jnp.float32)
    # END SOLUTION


def mxfp4_matmul(
    x: BFloat16[Array, "M K"],
    packed: UInt8[Array, "P N"],
    scale: UInt8[Array, "S N"],
    *,
    bn: int = 512,
    bk: int = 1024,
) -> Float32[Array, "M N"]:
    """Launch: as in packed_int4.

    bk is K, or a multiple of 1024, so that a block of scales consists of tiles of 32 rows.
    """
    M, K = x.shape
    _, N = scale.shape
    return pl.pallas_call(
        mxfp4_matmul_kernel,
        grid=(N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((M, bk), lambda j, k: (0, k)),
            pl.BlockSpec((bk // 2, bn), lambda j, k: (k, j)),
            pl.BlockSpec((bk // SHARING, bn), lambda j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((M, bn), lambda j, k: (0, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="mxfp4_matmul",
    )(x, packed, scale)


# ---- Given: inputs and helpers. ----


def any_bytes(key, rows, columns):
    """Any of the 256 integers, made of few random ones: rows differ, and so do columns."""
    keys = jax.random.split(key, 3)
    row, column, factor = (
        jax.random.bits(one, shape, "uint8")
        for one, shape in zip(keys, ((rows, 1), (1, columns), (1, columns)), strict=True)
    )
    return jax.lax.bitcast_convert_type((row ^ column) * (factor | 1), jnp.int8)


def mxfp4_matmul_inputs(key, *, M, N, K, S, P, dtype):
    """All 256 bytes; scales whose size differs by up to 2**10 within a column."""
    keys = jax.random.split(key, 4)
    x = jax.random.normal(keys[0], (M, K)).astype(dtype)
    packed = any_bytes(keys[1], P, N).astype(jnp.uint8)
    center = jax.random.randint(keys[2], (), 82, 173)
    scale = center + jax.random.randint(keys[3], (S, N), -5, 6)
    return x, packed, scale.astype(jnp.uint8)


def test_mxfp4_matmul(hidden_case):
    hidden_case.grade(mxfp4_matmul)
