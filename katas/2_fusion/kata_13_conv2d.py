"""Convolve images without copies of their windows: one matmul for each tap of the filter.

Goal
    Write a two-dimensional convolution, as neural networks define it: each pixel of the
    result is a sum over the window of KH x KW pixels that begins at the same place, and
    over C channels, for each of F filters. x is already padded, so the result has
    KH - 1 fewer rows and KW - 1 fewer columns. You write the kernel and the spec of x.

Concept
    The sum over a window is a sum of KH * KW products, one for each tap of the filter.
    Each is an ordinary matmul: pixels by channels, channels by filters.

        x                        tap (0, 0)      tap (0, 1)      tap (1, 0)
        +---------------+        +-----------+-+ +-+-----------+ +-------------+
        |               |        |###########| | | |###########| |-----------+ |
        |  bh + KH - 1  |   =    |###########| | | |###########| |###########| |
        |  rows of W    |        +-----------+ | | +-----------+ |###########| |
        |  pixels       |        +-------------+ +-------------+ +-----------+-+
        +---------------+           @ w[0, 0]  +    @ w[0, 1]  +    @ w[1, 0]  ...

    The textbook way gathers all windows into one long matrix first, in HBM, and
    multiplies once. With 3 x 3 taps that matrix has 9 times the bytes of x. For 8
    images of 66 x 66 pixels and 256 channels in bfloat16, 17 MiB become 144 MiB,
    written and read again: 369 µs on a v5e; all products take 197 µs. In VMEM the
    windows are slices of one block, and cost no HBM traffic.

    Blocks of the result don't overlap, but their inputs in x do: bh rows of the result
    need bh + KH - 1 rows of x. A block index can't express that, since it counts whole
    blocks. A dimension `pl.Element(size)` is indexed by its first element instead. If
    one dimension of a block is an Element, all are:

        pl.BlockSpec((pl.Element(1), pl.Element(rows), ...), lambda b, i: (b, <first row>, ...))

    Rows of pixels are a leading dimension. They may begin anywhere: tiles span the
    last two dimensions only, here pixels of a row and channels. A slice of pixels
    that begins at 1 has to be shifted by a sublane, which the core does in
    registers. To multiply, join rows and pixels of a window into one dimension.

    The MXU limits XLA's own convolution, too. Reasons to write your own kernel are
    other operations in the same pass: a norm, a residual, fewer bits.

Shapes
    name     dtype[dims]             memory space   Ref's shape                 block
    x_ref    x.dtype[B, H, W, C]     VMEM           (1, bh + KH - 1, W, C)      yours
    w_ref    x.dtype[KH, KW, C, F]   VMEM           (KH, KW, C, F)              whole
    o_ref    x.dtype[B, P, Q, F]     VMEM           (1, bh, Q, F)               (b, i, 0, 0)

    P = H - KH + 1, Q = W - KW + 1. The grid is (B, P / bh).

Try
    pytest -k conv2d          stuck?  kata hint conv2d

Needs     fused_matmul, refs_and_slices
Read on   A guide to convolution arithmetic, https://arxiv.org/abs/1603.07285
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def conv2d_spec(
    x: Float[Array, "B H W C"], w: Float[Array, "KH KW C F"]
) -> Float[Array, "B H-KH+1 W-KW+1 F"]:
    """The required result, in plain jax.numpy."""
    (_, H, W, _), (KH, KW, _, _) = x.shape, w.shape
    P, Q = H - KH + 1, W - KW + 1
    taps = [(dy, dx) for dy in range(KH) for dx in range(KW)]
    return sum(x[:, dy : dy + P, dx : dx + Q] @ w[dy, dx] for dy, dx in taps)


def conv2d_kernel(x_ref, w_ref, o_ref):
    _, bh, Q, F = o_ref.shape
    KH, KW, C, _ = w_ref.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "add up the products of each tap's window with its weights in float32, and store the rows"
    )
    # END SOLUTION


def conv2d(
    x: Float[Array, "B H W C"], w: Float[Array, "KH KW C F"], *, bh: int = 8
) -> Float[Array, "B H-KH+1 W-KW+1 F"]:
    """Launch: bh rows of one image's result in each step."""
    (B, H, W, C), (KH, KW, _, F) = x.shape, w.shape
    P, Q = H - KH + 1, W - KW + 1
    # BEGIN SOLUTION
    raise NotImplementedError(
        "set x_spec: blocks of bh + KH - 1 rows of one image, of which neighbours share KH - 1"
    )
    # END SOLUTION
    return pl.pallas_call(
        conv2d_kernel,
        grid=(B, P // bh),
        in_specs=[x_spec, pl.BlockSpec((KH, KW, C, F), lambda b, i: (0, 0, 0, 0))],
        out_specs=pl.BlockSpec((1, bh, Q, F), lambda b, i: (b, i, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((B, P, Q, F), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="conv2d",
    )(x, w)


# ---- Given: inputs and helpers. ----


def conv2d_inputs(key, *, B, P, Q, KH, KW, C, F, dtype):
    """Images that have room for the filter, and weights as in a new layer."""
    x_key, w_key = jax.random.split(key)
    x = jax.random.normal(x_key, (B, P + KH - 1, Q + KW - 1, C))
    w = jax.random.normal(w_key, (KH, KW, C, F)) * (KH * KW * C) ** -0.5
    return x.astype(dtype), w.astype(dtype)


def test_conv2d(hidden_case):
    hidden_case.grade(conv2d)
