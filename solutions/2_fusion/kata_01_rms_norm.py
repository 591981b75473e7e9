"""Divide every row by its root mean square, in one trip through HBM.

Goal
    Write the body of a kernel that normalizes each row of x and scales its columns
    by w:

        o[m, n] = x[m, n] / sqrt(mean of x[m, :]**2 + EPS) * w[n]

    The launch is given. A block holds bm whole rows, so a step has all numbers that a
    row depends on.

Concept
    Llama, Gemma and Qwen normalize like this before every attention and every MLP. That
    is about five operations for each element. A v5e has time for about 30 while HBM
    reads one bfloat16 element and writes another. So HBM traffic determines the time of
    such a layer, and this track is about traffic. *Fusion* means that an operation uses
    the previous operation's result before it goes to HBM.

    For x[8192, 4096] in bfloat16, x and o have 64 MiB each, and everything between
    them, in float32, would have 128 MiB:

        each operation alone    x -> f32 -> square -> mean,
                                f32 -> times 1/rms -> times w -> o    1280 MiB  1639 µs
        two loops, as by XLA    x -> mean;   x, mean, w -> o           192 MiB   246 µs
        this kernel             x, w -> o                              128 MiB   164 µs

    XLA fuses, too, but it compiles the formula to two loops: the first computes the
    means, and the second uses them. No result is known before a row's last element has
    been read, and by then the first element has left the chip. Your block still has it:
    256 rows of 4096 take 2 MiB of VMEM, and reading VMEM twice costs no traffic.

    Compute squares and their sum in float32: bfloat16 has 8 significant bits, and half
    an ulp of error in a row's mean affects the whole row. Add EPS, which keeps a row of
    zeros from being divided by 0, to the mean, under the root. In rows of small
    numbers, the place of EPS decides the result.

    M need not be a multiple of bm. The rows past the edge of x are garbage, and so are
    their results. But no row depends on another one, and rows past the edge of o are
    never written to HBM. You don't have to handle them.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    w_ref   float32[1, N]   VMEM           (1, N)        (0, 0)
    o_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)

    The grid is (pl.cdiv(M, bm),). Round once, when you store.

Try
    pytest -k rms_norm              stuck?  kata hint rms_norm

Needs     row_sum, ragged_tail, fused_matmul
Read on   Root Mean Square Layer Normalization, https://arxiv.org/abs/1910.07467
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32

EPS = 1e-6


def rms_norm_spec(x: Float[Array, "M N"], w: Float32[Array, "1 N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    mean = jnp.mean(x * x, axis=1, keepdims=True)
    return (x * jax.lax.rsqrt(mean + EPS) * w).astype(x.dtype)


def rms_norm_kernel(x_ref, w_ref, o_ref):
    # BEGIN SOLUTION
    x = x_ref[...].astype(jnp.float32)
    mean = jnp.mean(x * x, axis=1, keepdims=True)
    o_ref[...] = (x * jax.lax.rsqrt(mean + EPS) * w_ref[...]).astype(o_ref.dtype)
    # END SOLUTION


def rms_norm(
    x: Float[Array, "M N"], w: Float32[Array, "1 N"], *, bm: int = 256
) -> Float[Array, "M N"]:
    """Launch: one step for each block of bm rows; w stays in VMEM."""
    M, N = x.shape
    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    return pl.pallas_call(
        rms_norm_kernel,
        grid=(pl.cdiv(M, bm),),
        in_specs=[rows, pl.BlockSpec((1, N), lambda i: (0, 0))],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="rms_norm",
    )(x, w)


# ---- Given: inputs and helpers. ----


def rms_norm_inputs(key, *, M, N, dtype):
    """Give each row its own size, from far below EPS to large; one row in 16 is zeros."""
    x_key, size_key, w_key = jax.random.split(key, 3)
    size = 10 ** jax.random.uniform(size_key, (M, 1), minval=-4, maxval=2)
    size = jnp.where(jnp.arange(M)[:, None] % 16 == 5, 0, size)
    x = size * (jax.random.normal(x_key, (M, N)) + jnp.linspace(-2, 1, N))
    w = 1 + jax.random.normal(w_key, (1, N)) / 2
    return x.astype(dtype), w


def test_rms_norm(hidden_case):
    hidden_case.grade(rms_norm)
