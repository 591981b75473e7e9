"""Multiply a column by a row: an outer product, block by block.

Goal
    Compute result[m, n] = x[m, 0] * y[0, n] for a column x and a row y. The
    result is cut into blocks of (bm, bn), and the grid has one step (i, j) for
    each. You write the body and the three BlockSpecs.

Concept
    The result has two axes, each operand only one that matters. So the operands
    are cut into other shapes than the result, and follow other index maps:

                           y   | y 0 | y 1 | y 2 | y 3 |     pieces of (1, bn)
                  x
                +-----+        +-----+-----+-----+-----+
                | x 0 |        | 0,0 | 0,1 | 0,2 | 0,3 |
        pieces  +-----+        +-----+-----+-----+-----+
        of      | x 1 |        | 1,0 | 1,1 |#1,2#| 1,3 |     blocks of (bm, bn)
        (bm, 1) +-----+        +-----+-----+-----+-----+
                | x 2 |        | 2,0 | 2,1 | 2,2 | 2,3 |
                +-----+        +-----+-----+-----+-----+

    Ask of every array: which of its pieces does block (1, 2) need? The answer for
    a general (i, j) is that array's index map. A map need not use every grid axis,
    but it always receives them all, and returns one block number for each axis of
    its array. An axis of length 1 has a single block: number 0. Length 1 is legal,
    though no multiple of 8 or 128, because it is the array's whole axis.

    The steps run as two nested loops would, the last grid axis innermost:
    (0,0), (0,1), (0,2), (0,3), (1,0) ... When the index map gives the same block as
    in the step before, the block is in VMEM already and is not copied again:

        step      0,0   0,1   0,2   0,3   1,0   1,1   1,2   1,3
        x         copy   -     -     -    copy   -     -     -
        y         copy  copy  copy  copy  copy  copy  copy  copy

    This matters, for the two operands are not equally cheap. In a column each
    number has a row of 128 lanes to itself: 8 rows of x take a tile of 4 KiB, in
    which 8 of 1024 places are used. 2048 numbers in a column cost 1 MiB of traffic,
    and 8 KiB in a row. With j innermost, every piece of x is copied once only.

    In the body, `*` broadcasts as in NumPy. The vector unit spreads the column's
    numbers over the lanes and the row over the sublanes; both fill a register
    without any further traffic.

Shapes
    name     dtype[dims]        memory space   block
    x_ref    x.dtype[bm, 1]     VMEM           a piece of x[M, 1]
    y_ref    x.dtype[1, bn]     VMEM           a piece of y[1, N]
    o_ref    x.dtype[bm, bn]    VMEM           block (i, j) of the result[M, N]

Try
    pytest -k outer_product          stuck?  kata hint outer_product
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def outer_product_spec(x: Float[Array, "M 1"], y: Float[Array, "1 N"]) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x * y


def outer_product_kernel(x_ref, y_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] * y_ref[...]
    # END SOLUTION


def outer_product(
    x: Float[Array, "M 1"], y: Float[Array, "1 N"], *, bm: int = 256, bn: int = 512
) -> Float[Array, "M N"]:
    """Launch: one grid step for each (bm, bn) block of the result; the blocks divide it evenly."""
    m, n = x.shape[0], y.shape[1]
    # BEGIN SOLUTION
    x_spec = pl.BlockSpec((bm, 1), lambda i, j: (i, 0))
    y_spec = pl.BlockSpec((1, bn), lambda i, j: (0, j))
    o_spec = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    # END SOLUTION
    return pl.pallas_call(
        outer_product_kernel,
        grid=(m // bm, n // bn),
        in_specs=[x_spec, y_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x, y)


def test_outer_product(hidden_case):
    hidden_case.grade(outer_product)
