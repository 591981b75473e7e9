"""Multiply two matrices block by block, keeping the sum in float32.

Goal
    Write the body of a kernel that computes x @ y. The launch is given: it
    walks along K in blocks of bk and gives your body one block of x, one block
    of y and an accumulator. The result has the inputs' dtype, but don't round
    the sum over K to that dtype before it is complete.

Concept
    Each block of the result is a sum over k of small products, so this is the
    row sum again: k is the innermost grid axis, and all steps along it share
    one output block.

                   k ->                        j                     j
              +----+----+----+              +----+----+           +----+----+
        i     | x0 | x1 | x2 |          k   |    | y0 |     i     |    | o  |
              +----+----+----+          |   +----+----+           +----+----+
              |    |    |    |          v   |    | y1 |           |    |    |
              +----+----+----+              +----+----+           +----+----+
                                            |    | y2 |
                                            +----+----+    o = x0 y0 + x1 y1 + x2 y2

    There is one difference. The row sums were stored as float32. This result
    may be bfloat16, and a bfloat16 total would lose bits in every step. So the
    total has its own memory, called *scratch*: it is float32, in VMEM, and
    never copied to HBM. A body receives scratch Refs after the inputs and outputs:

        x_ref --+
                +--> matrix unit --> acc_ref (float32) --> o_ref --> HBM
        y_ref --+                    in every step         once per block

    Each core has one acc_ref for all its steps, so cores may share i and j, but not
    a sum. It starts as old bits, and what you store stays there from step to step,
    even when the grid moves on to the next block of the result: Pallas does not
    clear it. `pl.num_programs(axis)` is the number of steps along a grid axis.

    The matrix unit works the same way. On a v5e it is four arrays of 128 x
    128 multipliers, 197 Tflop/s in all: they take bfloat16 numbers, multiply
    them exactly, and add in float32. But by JAX's rules, a product of bfloat16
    matrices is bfloat16 again, so `jnp.dot` would drop the bits that you need.
    Its argument preferred_element_type sets the dtype of the result.

    (The unit rounds float32 inputs to bfloat16 before it multiplies, unless you
    ask for a higher `precision`, which takes up to six passes instead of one.
    A CPU doesn't round them. x @ y outside of Pallas has the same default.)

Shapes
    name      dtype[dims]       memory space   Ref's shape   block
    x_ref     x.dtype[M, K]     VMEM           (bm, bk)      (i, k)
    y_ref     x.dtype[K, N]     VMEM           (bk, bn)      (k, j)
    o_ref     x.dtype[M, N]     VMEM           (bm, bn)      (i, j)
    acc_ref   float32[bm, bn]   VMEM scratch   (bm, bn)      -

    The grid is (M / bm, N / bn, K / bk).

Try
    pytest -k tiled_matmul          stuck?  kata hint tiled_matmul

Needs     row_sum
Read on   Matrix Multiplication, https://docs.jax.dev/en/latest/pallas/tpu/matmul.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def tiled_matmul_spec(x: Float[Array, "M K"], y: Float[Array, "K N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x @ y


def tiled_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    # BEGIN SOLUTION
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    # END SOLUTION


def tiled_matmul(
    x: Float[Array, "M K"], y: Float[Array, "K N"], *, bm: int = 128, bn: int = 128, bk: int = 128
) -> Float[Array, "M N"]:
    """Launch: one step for each pair of blocks to multiply, with the sum over k innermost."""
    M, K = x.shape
    _, N = y.shape
    return pl.pallas_call(
        tiled_matmul_kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="tiled_matmul",
    )(x, y)


def test_tiled_matmul(hidden_case):
    hidden_case.grade(tiled_matmul)
