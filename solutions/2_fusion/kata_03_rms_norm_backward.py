"""Differentiate RMS norm: a gradient for each element of x, and one for w, summed over all rows.

Goal
    Write the backward pass of rms_norm, kernel and launch. From x, w and dy, the
    gradient of the loss with respect to the result, compute dx and dw. The grader runs
    `jax.vjp` and grades the whole: y, dx and dw.

Concept
    In the notation of rms_norm, s = 1 / sqrt(mean of x**2 + EPS) for each row, and
    n = x * s, the normalized row. The result is n * w. Then, row by row,

        dw = sum of dy * n       over all rows of x
        dx = s * (g - n * mean of (g * n))         where g = dy * w

    The second term of dx comes from s, which every element of a row changes. You keep
    only x and w from the forward pass, which exist anyway. The backward pass reads x in
    any case, so recomputing s costs no traffic.

    Again there are two results, but of different kinds. dx has a block for each step.
    dw is a single row, and each step adds the sum over its bm rows:

        step        0       1       2       3          time ->
        x_ref, dy | rows  | rows  | rows  | rows  |
        dx_ref    | dx 0  | dx 1  | dx 2  | dx 3  |
        dw_ref    | <-- clear, add, add, add ---> |  to HBM once, at the end

    This is row_sum's pattern along the only axis of the grid, and it has a price. Chips
    with two TensorCores split a "parallel" axis between them. Each core would have its
    own dw in VMEM, and would write its half of the sum to the same place. An axis along
    which something is summed must be "arbitrary", even if the other result doesn't need
    that. "arbitrary" is the default.

    Unlike in rms_norm, the edge matters here. Rows past the end of x are garbage in x
    and in dy. Their dx is cut off. But dw is a sum over rows.

    For 8190 x 4096 in bfloat16, the backward kernel moves three arrays, 192 MiB, which
    take 246 µs on a v5e. With the forward pass, the prediction is 320 MiB and 416 µs.
    XLA's program for both moves 448 MiB. A kernel for dx and another for dw, as JAX's
    version for GPUs has them, would read x and dy twice: 448 MiB, too.

Shapes
    name      dtype[dims]     memory space   Ref's shape   block
    x_ref     x.dtype[M, N]   VMEM           (bm, N)       yours
    w_ref     float32[1, N]   VMEM           (1, N)        yours
    dy_ref    x.dtype[M, N]   VMEM           (bm, N)       yours
    dx_ref    x.dtype[M, N]   VMEM           (bm, N)       yours
    dw_ref    float32[1, N]   VMEM           (1, N)        yours

    m is M, a Python int, which your launch binds: functools.partial(kernel, m=M).

Try
    pytest -k rms_norm_backward     stuck?  kata hint rms_norm_backward

Needs     layer_norm_residual, row_sum, right_on_one_core
Read on   Root Mean Square Layer Normalization, https://arxiv.org/abs/1910.07467
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32

EPS = 1e-6


def rms_norm_backward_spec(
    x: Float[Array, "M N"], w: Float32[Array, "1 N"], dy: Float[Array, "M N"]
) -> tuple[Float[Array, "M N"], Float[Array, "M N"], Float32[Array, "1 N"]]:
    """The expected results, in plain jax.numpy: y, dx and dw."""

    def rms_norm(x, w):
        mean = jnp.mean(x * x, axis=1, keepdims=True)
        return (x * jax.lax.rsqrt(mean + EPS) * w).astype(x.dtype)

    y, backward = jax.vjp(rms_norm, x, w)
    return y, *backward(dy)


def rms_norm_backward_kernel(x_ref, w_ref, dy_ref, dx_ref, dw_ref, *, m):
    # BEGIN SOLUTION
    @pl.when(pl.program_id(0) == 0)
    def _():
        dw_ref[...] = jnp.zeros_like(dw_ref)

    x, dy = x_ref[...].astype(jnp.float32), dy_ref[...].astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPS)
    n, g = x * scale, dy * w_ref[...]
    mean = jnp.mean(g * n, axis=1, keepdims=True)
    dx_ref[...] = (scale * (g - n * mean)).astype(dx_ref.dtype)

    row = pl.program_id(0) * len(x) + jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    dw_ref[...] += jnp.sum(jnp.where(row < m, dy * n, 0), axis=0, keepdims=True)
    # END SOLUTION


def rms_norm_gradients(x, w, dy, bm):
    """Launch the backward kernel over blocks of bm rows. Return dx, and dw in float32."""
    # BEGIN SOLUTION
    M, N = x.shape
    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    row = pl.BlockSpec((1, N), lambda i: (0, 0))
    return pl.pallas_call(
        functools.partial(rms_norm_backward_kernel, m=M),
        grid=(pl.cdiv(M, bm),),
        in_specs=[rows, row, rows],
        out_specs=[rows, row],
        out_shape=[
            jax.ShapeDtypeStruct((M, N), x.dtype),
            jax.ShapeDtypeStruct((1, N), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        name="rms_norm_backward",
    )(x, w, dy)
    # END SOLUTION


def rms_norm_backward(
    x: Float[Array, "M N"], w: Float32[Array, "1 N"], dy: Float[Array, "M N"], *, bm: int = 128
) -> tuple[Float[Array, "M N"], Float[Array, "M N"], Float32[Array, "1 N"]]:
    """Return y, and the results of jax.vjp for dy: dx and dw."""
    differentiable = jax.custom_vjp(normalized, nondiff_argnums=(2,))
    differentiable.defvjp(normalized_fwd, normalized_bwd)
    y, backward = jax.vjp(lambda x, w: differentiable(x, w, bm), x, w)
    return y, *backward(dy)


# ---- Given: inputs and helpers. ----


def normalized_fwd(x, w, bm):
    """The forward rule: the result, and the residuals (softmax_backward is about these)."""
    return normalized(x, w, bm), (x, w)


def normalized_bwd(bm, residuals, dy):
    """The backward rule: a gradient for x and one for w."""
    dx, dw = rms_norm_gradients(*residuals, dy, bm)
    return dx, dw


def rms_norm_kernel(x_ref, w_ref, o_ref):
    """A solution of rms_norm."""
    x = x_ref[...].astype(jnp.float32)
    mean = jnp.mean(x * x, axis=1, keepdims=True)
    o_ref[...] = (x * jax.lax.rsqrt(mean + EPS) * w_ref[...]).astype(o_ref.dtype)


def normalized(x, w, bm):
    """The forward pass: the launch of rms_norm."""
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


def rms_norm_backward_inputs(key, *, M, N, dtype):
    """Give each row its own size, some so small that EPS matters; dy leans towards x."""
    x_key, size_key, w_key, dy_key = jax.random.split(key, 4)
    size = 10 ** jax.random.uniform(size_key, (M, 1), minval=-2, maxval=0.5)
    x = jax.random.normal(x_key, (M, N)) + jnp.linspace(-2, 1, N)
    dy = jax.random.normal(dy_key, (M, N)) + x / 2
    w = 1 + jax.random.normal(w_key, (1, N)) / 2
    return (size * x).astype(dtype), w, dy.astype(dtype)


def test_rms_norm_backward(hidden_case):
    hidden_case.grade(rms_norm_backward)
