"""Choose block shapes that a TPU accepts, whatever the caller asks for.

Goal
    Triple every element of a matrix. The kernel is given. The caller proposes a
    block shape (bm, bn), which may be any size, such as the 32 x 32 that suits a
    GPU. Turn the proposal into a legal block shape, and write the BlockSpec that
    x and the result share:

      * round bm up to the next multiple of 8, and bn to the next multiple of 128;
      * if a rounded size is larger than the matrix, use the matrix's whole
        dimension instead.

    In the hidden cases, your blocks then divide the matrix evenly.

Concept
    A TPU's vector register is two-dimensional: 8 sublanes by 128 lanes of 32 bits
    each. HBM and VMEM store a matrix in tiles of this shape. Each tile is 4 KiB of
    consecutive memory, so one load moves one tile to one register:

                 128 lanes                       a float32 matrix of (24, 384)
        +---------------------------+            +--------+--------+--------+
      8 | x[0,0]  x[0,1]  x[0,127]  |            | tile 0 | tile 1 | tile 2 |
     sub| x[1,0]    ..              |            +--------+--------+--------+
     la-|   ..                      |            | tile 3 | tile 4 | tile 5 |
    nes | x[7,0]    ..    x[7,127]  |            +--------+--------+--------+
        +---------------------------+            | tile 6 | tile 7 | tile 8 |
                                                 +--------+--------+--------+

    A (32, 32) block would cut through tiles. Block (0, 1) would begin at lane 32.
    The DMA engine can copy parts of tiles, but can't move them to other lanes:

        lane   0      32     64     96    128
        row 0  | (0,0) | (0,1) | (0,2) | (0,3) |   one tile, shared by four blocks

    This leads to the block-shape rule for the last two dimensions of any block:

        dimension        must be a multiple of    or equal to
        second to last   8   (sublanes)           the array's whole dimension
        last             128 (lanes)              the array's whole dimension

    In HBM, a tile of bfloat16 is 8 x 128 as well, with its rows packed in pairs:
    2 KiB. So blocks of 8 rows are whole tiles, and the rule is the same. Only a
    register, which always holds 4 KiB, takes 16 rows of bfloat16.

    An interpreter runs a (32, 32) block and returns the right numbers, but a TPU
    refuses the kernel. So the grader checks block shapes separately. And a legal
    block is not always a fast one: on a v5e, tripling a 4096 x 4096 float32 matrix
    takes about 5 ms in blocks of (8, 128), but 0.16 ms in blocks of (256, 512),
    which is as fast as HBM allows.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, N]   VMEM           legal         (i, j)
    o_ref   x.dtype[M, N]   VMEM           legal         (i, j)

Try
    pytest -k scale_2d          stuck?  kata hint scale_2d

Needs     tiled_vector_add
Read on   Tiled layout in XLA, https://openxla.org/xla/tiled_layout
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def scale_2d_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x * 3


def scale_2d_kernel(x_ref, o_ref):
    """Triple a block. Given: it works for a block of any shape."""
    o_ref[...] = x_ref[...] * 3


def scale_2d(x: Float[Array, "M N"], *, bm: int = 256, bn: int = 512) -> Float[Array, "M N"]:
    """Launch: a grid of two axes, so every index map takes two numbers, i and j."""
    M, N = x.shape
    # BEGIN SOLUTION
    bm = min((bm + 7) // 8 * 8, M)
    bn = min((bn + 127) // 128 * 128, N)
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    # END SOLUTION
    return pl.pallas_call(
        scale_2d_kernel,
        grid=(M // bm, N // bn),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="scale_2d",
    )(x)


def test_scale_2d(hidden_case):
    hidden_case.grade(scale_2d)
