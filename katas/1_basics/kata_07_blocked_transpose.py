"""Transpose a matrix block by block.

Goal
    Return the transpose of x. The grid has one step (i, j) for each (bm, bn)
    block of x. You write the body and both BlockSpecs. No transposition outside
    the kernel: there is no array left to transpose once the blocks are right.

Concept
    The transpose of a matrix of blocks is two things at once, and either alone
    gives a wrong answer:

        the blocks change places             and each block is transposed

        +---+---+---+      +---+---+         +-----+          +---+
        | A | B | C |      | A | D |         | 1 2 |          | 1 3 |
        +---+---+---+  ->  +---+---+         | 3 4 |    ->    | 2 4 |
        | D | E | F |      | B | E |         +-----+          +---+
        +---+---+---+      +---+---+
                           | C | F |
                           +---+---+
        BlockSpecs: a matter of addresses    body: a matter of lanes and sublanes

    Until now the result was cut like the operand, and a step wrote the block that
    it had read. Here the Refs of a step differ in shape, and so do the places in
    HBM that they stand for. x_ref is (bm, bn); what shape has its transpose, and
    which block of the result is it?

    Why in blocks? A matrix lies in HBM in tiles of 8 rows by 128 lanes, 4 KiB
    each. Whoever picks a single column of it out of HBM fetches, for every 8
    numbers, a whole tile of 1024. A block is read in whole tiles and written in
    whole tiles; in between it lies in VMEM, and a unit of its own beside the
    vector unit, the XLU, exchanges rows and columns. It works while the next
    block is being copied, so a transpose can run at the pace of a copy. For
    float32[2048, 4096] on a v5e, predicted from the compiled program:

        blocks                 128 x 128    256 x 512    512 x 512
        transpose                215 us        83 us        82 us
        plain copy                                          82 us

    The block-shape rule now counts for both specs. bm is the rows of one block and
    the columns of the other, and so is bn: both have to be multiples of 128, where
    for x alone a multiple of 8 rows would do.

    In a kernel, `.T` transposes a value that was loaded from a Ref. `reshape` does
    something else: it keeps the elements in reading order and only folds the lines
    anew.

Shapes
    name     dtype[dims]        memory space   block
    x_ref    x.dtype[bm, bn]    VMEM           block (i, j) of x[M, N]
    o_ref    x.dtype[...]       VMEM           a block of the result[N, M]

Try
    pytest -k blocked_transpose          stuck?  kata hint blocked_transpose
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def blocked_transpose_spec(x: Float[Array, "M N"]) -> Float[Array, "N M"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x.T


def blocked_transpose_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError("transpose the block in x_ref and store it in o_ref")
    # END SOLUTION


def blocked_transpose(
    x: Float[Array, "M N"], *, bm: int = 512, bn: int = 512
) -> Float[Array, "N M"]:
    """Launch: one grid step for each (bm, bn) block of x; bm divides M and bn divides N."""
    m, n = x.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "set x_spec and o_spec: the block shapes, and the index maps from (i, j)"
    )
    # END SOLUTION
    return pl.pallas_call(
        blocked_transpose_kernel,
        grid=(m // bm, n // bn),
        in_specs=[x_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((n, m), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x)


def test_blocked_transpose(hidden_case):
    hidden_case.grade(blocked_transpose)
