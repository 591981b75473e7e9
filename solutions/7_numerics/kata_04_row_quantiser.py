"""Quantise each row of a matrix to int8, with one scale per row.

Goal
    Write the kernel that converts a float matrix to int8 numbers and one scale per row,
    as int8_matmul takes them. The largest |number| of a row becomes 127 or -127. But no
    scale may be larger than cap / 127: numbers beyond cap are clipped. A row of zeros
    has the scale 1.

Concept
    The largest |number| of a row decides how fine its steps are:

        row    0.02  -1.27   0.50   0.635        scale = 1.27 / 127 = 0.01
        / s    2     -127    50     63.5
        q      2     -127    50     64           q * s: 0.02 -1.27 0.50 0.64

    A single outlier makes the steps of its whole row coarse. That is why each row has
    its own scale, and why calibration may set a cap: an error in one large number can
    cost less than errors in thousands of small ones.

    Rounding. A cast to an integer truncates: it moves each number towards 0, by half a
    step on average, and all errors in a row of positive numbers have the same sign. In
    a sum over k, such errors add up; errors of rounding to nearest mostly cancel. Ties,
    like 63.5, go to the even neighbour: `floor(x + 0.5)` would move them all upwards.
    bfloat16 inputs have 8 bits, so ties are not rare.

    Clipping. An int8 ranges from -128 to 127. Only -127 to 127 is used, so that -x is
    as exact as x. Clip numbers while they are still floats: a cast of 300 to int8 is 44
    on one machine and 127 on another.

    The grader compares integers exactly, so errors of float32 could matter: x / scale
    and x * (1 / scale) may differ in their last bit. In the inputs, ties are exact
    either way, and no other number is close to a tie.

    The kernel does all of its work while a row is in VMEM: it reads x once and writes q
    once. For 8192 rows of 4096 in bfloat16, that is 100 MiB and a predicted 129 µs on a
    v5e. XLA's program reads x twice, for the maximum and the quotient: it moves
    160 MiB, which alone takes 205 µs.

Shapes
    name        dtype[dims]     memory space   Ref's shape   block
    cap_ref     float32[1, 1]   SMEM           (1, 1)        whole
    x_ref       x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    q_ref       int8[M, N]      VMEM           (bm, N)       (i, 0)
    scale_ref   float32[M, 1]   VMEM           (bm, 1)       (i, 0)

    The grid is (M / bm,).

Try
    pytest -k row_quantiser           stuck?  kata hint row_quantiser

Needs     two_memories, int8_matmul
Read on   LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale,
          https://arxiv.org/abs/2208.07339
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32, Int8


def row_quantiser_spec(
    cap: Float32[Array, "1 1"], x: Float[Array, "M N"]
) -> tuple[Int8[Array, "M N"], Float32[Array, "M 1"]]:
    """The required result, in plain jax.numpy."""
    x = x.astype(cap.dtype)
    amax = jnp.minimum(jnp.max(jnp.abs(x), axis=1, keepdims=True), cap)
    scale = jnp.where(amax == 0, 1, amax / 127)
    return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8), scale


def row_quantiser_kernel(cap_ref, x_ref, q_ref, scale_ref):
    # BEGIN SOLUTION
    x = x_ref[...].astype(jnp.float32)
    amax = jnp.max(jnp.abs(x), axis=1, keepdims=True)
    amax = jnp.minimum(amax, cap_ref[0, 0])
    scale = jnp.where(amax == 0, 1, amax / 127)
    steps = jnp.round(x / scale)
    q_ref[...] = jnp.clip(steps, -127, 127).astype(jnp.int8)
    scale_ref[...] = scale
    # END SOLUTION


def row_quantiser(
    cap: Float32[Array, "1 1"], x: Float[Array, "M N"], *, bm: int = 256
) -> tuple[Int8[Array, "M N"], Float32[Array, "M 1"]]:
    """Launch: blocks of whole rows."""
    M, N = x.shape
    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    return pl.pallas_call(
        row_quantiser_kernel,
        grid=(M // bm,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), rows],
        out_specs=[rows, pl.BlockSpec((bm, 1), lambda i: (i, 0))],
        out_shape=[
            jax.ShapeDtypeStruct((M, N), jnp.int8),
            jax.ShapeDtypeStruct((M, 1), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="row_quantiser",
    )(cap, x)


# ---- Given: inputs and helpers. ----


def row_quantiser_inputs(key, *, M, N, dtype):
    """Rows with steps of a power of 2, where ties are exact, among rows of any scale, and zeros."""
    keys = jax.random.split(key, 5)
    cap = jnp.full((1, 1), 127 / 16)
    # Halves and quarters of a step are exact in bfloat16. Every row reaches 127 or more.
    size = jax.random.choice(keys[0], jnp.array([1, 4, 64.0, 150.0]), (M, N))
    steps = jnp.round(jnp.clip(size * jax.random.normal(keys[1], (M, N)), -250, 250) * 2) / 2
    steps = jnp.where(jnp.abs(steps) < 32, steps / 2, steps)
    level = jax.random.randint(keys[2], (M, 1), -9, -3)
    outside = jnp.where(level == -4, 127, 200)
    exact = jnp.where(level == -4, steps, jnp.clip(steps, -127, 127)).at[:, N // 2].set(-127)
    exact = exact.at[:, N // 3].set(jnp.where(level == -4, outside, 126.5)[:, 0])
    exact = exact * jnp.exp2(level)
    any_scale = jax.random.normal(keys[3], (M, N)) * jnp.exp(jax.random.normal(keys[3], (M, 1)))
    x = jnp.where(jnp.arange(M)[:, None] % 2, exact, any_scale)
    x = jnp.where(jax.random.permutation(keys[4], M)[:, None] % 7 == 0, 0, x).astype(dtype)
    scale = jnp.minimum(jnp.max(jnp.abs(x.astype(jnp.float32)), axis=1, keepdims=True), cap) / 127
    steps = x / jnp.where(scale == 0, 1, scale)
    to_tie = jnp.abs(jnp.abs(steps - jnp.round(steps)) - 0.5)
    near = (to_tie < 1e-3) & (to_tie > 0) | (jnp.arange(M)[:, None] % 2 == 0) & (to_tie == 0)
    return cap, jnp.where(near, 0, x)


def test_row_quantiser(hidden_case):
    hidden_case.grade(row_quantiser)
