"""Scale the rows of a matrix, and shift its columns, by two vectors.

Goal
    Compute o[m, n] = x[m, n] * scale[m] + bias[n], where scale and bias are vectors: arrays
    of one dimension. Write the body and the BlockSpecs of both vectors.

Concept
    In outer_product, a column had the shape (M, 1). HBM stores such an array in whole tiles:
    each number has a row of 128 lanes to itself. A vector has no such tiles. Its numbers are
    next to each other, in HBM and in registers:

                      in HBM, 4096 float32 numbers
        (4096, 1)     2 MiB     |#.......|#.......|#.......|  128 lanes each
        (4096,)      16 KiB     |########|########|########|

    A block of a vector is either the whole vector, or follows the rule of tiled_vector_add: a
    multiple of 1024, or a power of two of at least 128 numbers of 32 bits (256 of 16 bits).
    Its index map returns one number.

    In the body, both Refs are vectors along the lanes. How they broadcast against a block of
    x, (bm, bn), follows NumPy's rule: a vector is a row.

        bias   | 0 1 2 3 ... |        is repeated in each row: as it should be
        scale  | 0 1 2 3 ... |        has to become a column: scale[:, None]

                 | 0 |   | x x x x ...
                 | 1 | * | x x x x ...
                 | 2 |   | x x x x ...

    `[:, None]` moves each number from its lane to its own sublane and repeats it there. That
    is work for the unit that moves data across lanes. A v5e does it while the next block of x
    is copied, so it costs nothing here. But Mosaic can do it for numbers of 32 bits only: for
    a bfloat16 vector, the compiler refuses. Cast it to float32 first.

    If bm and bn are equal, a forgotten `[:, None]` is no error: each column is multiplied by
    a number that was meant for a row.

    For x[4096, 8192] in bfloat16, the kernel moves 128 MiB and takes 164 µs on a v5e. With a
    bfloat16 scale of shape (4096, 1), it would move 1 MiB more.

Shapes
    name        dtype[dims]     memory space   Ref's shape   block
    x_ref       x.dtype[M, N]   VMEM           (bm, bn)      (i, j)
    scale_ref   x.dtype[M]      VMEM           (bm,)         yours
    bias_ref    x.dtype[N]      VMEM           (bn,)         yours
    o_ref       x.dtype[M, N]   VMEM           (bm, bn)      (i, j)

    The grid is (M / bm, N / bn). bm and bn are legal for vectors. Compute in float32.

Try
    pytest -k vector_operands         stuck?  kata hint vector_operands

Needs     outer_product, tiled_vector_add
Read on   NumPy's broadcasting, https://numpy.org/doc/stable/user/basics.broadcasting.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def vector_operands_spec(
    x: Float[Array, "M N"], scale: Float[Array, "M"], bias: Float[Array, "N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x * scale[:, None] + bias


def vector_operands_kernel(x_ref, scale_ref, bias_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "multiply each row of the block by its number of scale, add bias to each row, and store in o_ref's dtype"
    )
    # END SOLUTION


def vector_operands(
    x: Float[Array, "M N"],
    scale: Float[Array, "M"],
    bias: Float[Array, "N"],
    *,
    bm: int = 256,
    bn: int = 1024,
) -> Float[Array, "M N"]:
    """Launch: a step for each block of (bm, bn)."""
    M, N = x.shape
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    # BEGIN SOLUTION
    raise NotImplementedError(
        "scale_spec and bias_spec: a block shape of one number, and an index map that returns one"
    )
    # END SOLUTION
    return pl.pallas_call(
        vector_operands_kernel,
        grid=(M // bm, N // bn),
        in_specs=[block, scale_spec, bias_spec],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="vector_operands",
    )(x, scale, bias)


def test_vector_operands(hidden_case):
    hidden_case.grade(vector_operands)
