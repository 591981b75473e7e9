"""Add a layer's result to the residual stream, and normalize the sum for the next layer.

Goal
    Write a kernel with two results, and its launch:

        h = x + r                                     the residual stream goes on
        y = (h - mean) / sqrt(variance + EPS) * w + b   what the next layer reads

    mean and variance are taken over each row of h: a layer norm. M need not be a
    multiple of bm. A block holds all of N.

Concept
    A transformer does this twice in every layer. With two kernels, one that adds and
    one that normalizes, h goes to HBM and comes right back:

        two kernels   x, r -> h      h -> y       5 arrays of M x N
        one kernel    x, r -> h, y                4 arrays of M x N

    A kernel can have several results. `out_shape` and `out_specs` become lists of the
    same length, the kernel gets one Ref for each result, after the input Refs, and
    `pallas_call` returns the results in this order:

        out_specs=[spec of h, spec of y]
        kernel(x_ref, r_ref, w_ref, b_ref, h_ref, y_ref)
                                           |      |
                             h, y = pallas_call(...)(x, r, w, b)

    For x[8190, 4096] in bfloat16, four arrays of 64 MiB take 328 µs on a v5e. XLA moves
    512 MiB, which take at least 655 µs. Its loops for the mean, for the variance and
    for the result each read x and r again, so that h isn't rounded before it is
    normalized. (If rounding is allowed, XLA stores h first: 384 MiB.)

    Rounding h is the first of two ways to lose digits. h_ref is bfloat16 if x is, and a
    sum of two bfloat16 numbers has more digits than that. The norm subtracts the mean,
    which is most of h in some rows, so the rounding error grows relative to the
    remainder. You have the sum in float32: round the copy that you store, and normalize
    the unrounded sum.

    The second is a well-known shortcut: the variance is mean(h**2) - mean(h)**2, which
    needs only one loop over the row. But if the mean is 300 times the deviation, both
    terms agree in the first five of seven decimal digits, so their difference has only
    two. In VMEM, a second loop over the row is cheap: subtract the mean first, then
    square.

Shapes
    name           dtype[dims]     memory space   Ref's shape   block
    x_ref, r_ref   x.dtype[M, N]   VMEM           (bm, N)       yours
    w_ref, b_ref   float32[1, N]   VMEM           (1, N)        yours
    h_ref, y_ref   x.dtype[M, N]   VMEM           (bm, N)       yours

    The grid has one axis, over blocks of bm rows; the last one may be ragged.

Try
    pytest -k layer_norm_residual   stuck?  kata hint layer_norm_residual

Needs     rms_norm, launch_vector_add
Read on   Layer Normalization, https://arxiv.org/abs/1607.06450
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32

EPS = 1e-6


def layer_norm_residual_spec(
    x: Float[Array, "M N"],
    r: Float[Array, "M N"],
    w: Float32[Array, "1 N"],
    b: Float32[Array, "1 N"],
) -> tuple[Float[Array, "M N"], Float[Array, "M N"]]:
    """The expected results, in plain jax.numpy: h and y. Graded in float64, without rounding."""
    h = x + r
    y = h - jnp.mean(h, axis=1, keepdims=True)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=1, keepdims=True) + EPS)
    return h, (y * w + b).astype(x.dtype)


def layer_norm_residual_kernel(x_ref, r_ref, w_ref, b_ref, h_ref, y_ref):
    # BEGIN SOLUTION
    h = x_ref[...].astype(jnp.float32) + r_ref[...].astype(jnp.float32)
    h_ref[...] = h.astype(h_ref.dtype)
    y = h - jnp.mean(h, axis=1, keepdims=True)
    variance = jnp.mean(y * y, axis=1, keepdims=True)
    y_ref[...] = (y * jax.lax.rsqrt(variance + EPS) * w_ref[...] + b_ref[...]).astype(y_ref.dtype)
    # END SOLUTION


def layer_norm_residual(
    x: Float[Array, "M N"],
    r: Float[Array, "M N"],
    w: Float32[Array, "1 N"],
    b: Float32[Array, "1 N"],
    *,
    bm: int = 128,
) -> tuple[Float[Array, "M N"], Float[Array, "M N"]]:
    """Launch: blocks of bm whole rows, two inputs and two results of them. Return h and y."""
    # BEGIN SOLUTION
    M, N = x.shape
    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    row = pl.BlockSpec((1, N), lambda i: (0, 0))
    result = jax.ShapeDtypeStruct((M, N), x.dtype)
    return pl.pallas_call(
        layer_norm_residual_kernel,
        grid=(pl.cdiv(M, bm),),
        in_specs=[rows, rows, row, row],
        out_specs=[rows, rows],
        out_shape=[result, result],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="layer_norm_residual",
    )(x, r, w, b)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def layer_norm_residual_inputs(key, *, M, N, dtype):
    """Give each row its own mean, in some rows 300 times the deviation; every 16th is flat.

    Every 16th has a variance near EPS.
    """
    keys = jax.random.split(key, 6)
    mean = 300 * jax.random.uniform(keys[0], (M, 1), minval=-1) ** 3
    size = 10 ** jax.random.uniform(keys[1], (M, 1), minval=-1, maxval=0.5)
    flat, faint = (jnp.arange(M)[:, None] % 16 == row for row in (5, 9))
    mean, size = jnp.where(faint, 0, mean), jnp.where(faint, 1e-3, size)
    x = jnp.where(flat, 0.5, size * jax.random.normal(keys[2], (M, N)) + mean)
    r = jnp.where(flat, 0.25, size * jax.random.normal(keys[3], (M, N)) + mean / 3)
    w = 1 + jax.random.normal(keys[4], (1, N)) / 2
    return x.astype(dtype), r.astype(dtype), w, jax.random.normal(keys[5], (1, N))


def test_layer_norm_residual(hidden_case):
    hidden_case.grade(layer_norm_residual)
