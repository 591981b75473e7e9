"""Transpose a matrix block by block.

Goal
    Return the transpose of x. The grid has one step (i, j) for each (bm, bn)
    block of x. You write the body and both BlockSpecs. Do not transpose anything
    outside the kernel: once every block is transposed and in its place, the
    result is complete.

Concept
    To transpose a matrix in blocks you have to do two things, and either one
    alone gives a wrong result:

        the blocks change places             and each block is transposed

        +---+---+---+      +---+---+         +-----+          +---+
        | A | B | C |      | A | D |         | 1 2 |          | 1 3 |
        +---+---+---+  ->  +---+---+         | 3 4 |    ->    | 2 4 |
        | D | E | F |      | B | E |         +-----+          +---+
        +---+---+---+      +---+---+
                           | C | F |
                           +---+---+
        your BlockSpecs do this              your body does this

    In scale_2d, x and the result had the same blocks, and each step wrote the
    block that it had read. Here the two Refs of a step differ both in shape and in
    their place in HBM. x_ref is (bm, bn). What shape is its transpose, and which
    block of the result is it?

    Why in blocks? HBM stores a float32 matrix in tiles of 8 rows by 128 lanes,
    4 KiB each. Reading a single column from HBM would fetch a whole tile of 1024
    numbers for every 8 that you need. A block is read and written in whole tiles.
    In between it is in VMEM, and a unit next to the vector unit, the XLU, exchanges
    its rows and columns. The XLU works while the next block is being copied, so a
    transpose can be as fast as a copy. These are times for float32[2048, 4096] on
    a v5e, predicted from the compiled program:

        blocks                 128 x 128    256 x 512    512 x 512
        transpose                215 µs        83 µs        82 µs
        plain copy                                          82 µs

    The block-shape rule now applies to both specs. bm is the number of rows of
    x's block and the number of columns of the result's block; for bn it is the
    other way around. So both must be multiples of 128, although for x alone a
    multiple of 8 rows would be enough.

    In a kernel, `.T` transposes a value that was loaded from a Ref. `reshape` does
    something else: it keeps the elements in row-major order and only breaks them
    into rows of another length.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, N]   VMEM           (bm, bn)      (i, j)
    o_ref   x.dtype[N, M]   VMEM           yours         yours

Try
    pytest -k blocked_transpose          stuck?  kata hint blocked_transpose

Needs     outer_product
Read on   Writing TPU kernels with Pallas, https://docs.jax.dev/en/latest/pallas/tpu/details.html
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def blocked_transpose_spec(x: Float[Array, "M N"]) -> Float[Array, "N M"]:
    """The required result, in plain jax.numpy."""
    return x.T


def blocked_transpose_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...].T
    # END SOLUTION


def blocked_transpose(
    x: Float[Array, "M N"], *, bm: int = 512, bn: int = 512
) -> Float[Array, "N M"]:
    """Launch: one grid step for each (bm, bn) block of x; bm divides M and bn divides N."""
    M, N = x.shape
    # BEGIN SOLUTION
    x_spec = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    o_spec = pl.BlockSpec((bn, bm), lambda i, j: (j, i))
    # END SOLUTION
    return pl.pallas_call(
        blocked_transpose_kernel,
        grid=(M // bm, N // bn),
        in_specs=[x_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((N, M), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="blocked_transpose",
    )(x)


def test_blocked_transpose(hidden_case):
    hidden_case.grade(blocked_transpose)
