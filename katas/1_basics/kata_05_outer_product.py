"""Multiply a column by a row: an outer product, block by block.

Goal
    Compute result[m, n] = x[m, 0] * y[0, n] for a column x and a row y. The
    result is cut into blocks of (bm, bn), and the grid has one step (i, j) for
    each block. You write the body and the three BlockSpecs.

Concept
    The result has two long dimensions, but each operand has only one. So the
    operands need block shapes and index maps that differ from the result's:

                           y   | y 0 | y 1 | y 2 | y 3 |     blocks of (1, bn)
                  x
                +-----+        +-----+-----+-----+-----+
                | x 0 |        | 0,0 | 0,1 | 0,2 | 0,3 |
        blocks  +-----+        +-----+-----+-----+-----+
        of      | x 1 |        | 1,0 | 1,1 |#1,2#| 1,3 |     blocks of (bm, bn)
        (bm, 1) +-----+        +-----+-----+-----+-----+
                | x 2 |        | 2,0 | 2,1 | 2,2 | 2,3 |
                +-----+        +-----+-----+-----+-----+

    For each array, ask: which of its blocks does block (1, 2) of the result need?
    The answer for any (i, j) is that array's index map. An index map receives the
    step's position on every grid axis, even if it needs only some of them. It
    returns one block number for each dimension of its array. A dimension of length
    1 has a single block, number 0. A block size of 1 is legal there: it is not a
    multiple of 8 or 128, but it is the array's whole dimension.

    The steps run like two nested loops, with the last grid axis innermost:
    (0,0), (0,1), (0,2), (0,3), (1,0) ... When an index map returns the same block
    as in the previous step, the block is already in VMEM and is not copied again:

        step      0,0   0,1   0,2   0,3   1,0   1,1   1,2   1,3
        x         copy   -     -     -    copy   -     -     -
        y         copy  copy  copy  copy  copy  copy  copy  copy

    This matters because a column costs more to copy than a row. An array x of
    2048 x 1 float32 takes 8 KiB in HBM, but a kernel gets its operands in whole
    tiles. So XLA makes a padded copy of x before the kernel starts, in which each
    number has a row of 128 lanes to itself: 1 MiB, of which 8 KiB are used. The
    blocks of x are copied from there. A row of 2048 stays at 8 KiB. With j
    innermost, each block of x is copied only once.

    In the body, `*` broadcasts as in NumPy. The core repeats the column across the
    lanes and the row across the sublanes. It does this in registers, without any
    more copies from HBM.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, 1]   VMEM           (bm, 1)       yours
    y_ref   x.dtype[1, N]   VMEM           (1, bn)       yours
    o_ref   x.dtype[M, N]   VMEM           (bm, bn)      (i, j)

Try
    pytest -k outer_product          stuck?  kata hint outer_product

Needs     scale_2d
Read on   All About Rooflines, https://jax-ml.github.io/scaling-book/roofline/
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def outer_product_spec(x: Float[Array, "M 1"], y: Float[Array, "1 N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x * y


def outer_product_kernel(x_ref, y_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "multiply the column in x_ref by the row in y_ref and store the (bm, bn) products in o_ref"
    )
    # END SOLUTION


def outer_product(
    x: Float[Array, "M 1"], y: Float[Array, "1 N"], *, bm: int = 256, bn: int = 512
) -> Float[Array, "M N"]:
    """Launch: one grid step for each (bm, bn) block of the result; the blocks divide it evenly."""
    M, N = x.shape[0], y.shape[1]
    # BEGIN SOLUTION
    raise NotImplementedError(
        "set x_spec, y_spec and o_spec: for each array, the block shape and the index map from (i, j)"
    )
    # END SOLUTION
    return pl.pallas_call(
        outer_product_kernel,
        grid=(M // bm, N // bn),
        in_specs=[x_spec, y_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="outer_product",
    )(x, y)


def test_outer_product(hidden_case):
    hidden_case.grade(outer_product)
