"""Choose block shapes that a TPU accepts, whatever the caller asks for.

Goal
    Triple every element of a matrix. The kernel is given. The caller proposes a
    block of about (bm, bn), and that may be any size, such as the 32 x 32 that
    suits a GPU. Turn the proposal into the smallest legal block that is no
    smaller than it, and write the BlockSpec that x and the result share:

      * round bm up to the next multiple of 8, and bn to the next multiple of 128;
      * where that is more than the matrix has, take the matrix' whole axis.

    In the hidden cases your blocks then divide the matrix evenly.

Concept
    A vector register of a TPU is two-dimensional: 8 sublanes of 128 lanes, 32
    bits each. A matrix is kept in such tiles in HBM and in VMEM alike; tile
    after tile is 4 KiB in a row, so that a load moves one tile to one register:

                 128 lanes                       a float32 matrix of (24, 384)
        +---------------------------+            +--------+--------+--------+
      8 | x[0,0]  x[0,1]  x[0,127]  |            | tile 0 | tile 1 | tile 2 |
     sub| x[1,0]    ..              |            +--------+--------+--------+
     la-|   ..                      |            | tile 3 | tile 4 | tile 5 |
    nes | x[7,0]    ..    x[7,127]  |            +--------+--------+--------+
        +---------------------------+            | tile 6 | tile 7 | tile 8 |
                                                 +--------+--------+--------+

    A (32, 32) block would cut through tiles. Block (0, 1) begins at lane 32, and
    the DMA engine moves pieces of tiles but cannot shift them to other lanes:

        lane   0      32     64     96    128
        row 0  | (0,0) | (0,1) | (0,2) | (0,3) |   one tile, shared by four blocks

    Hence the block-shape rule, for the last two axes of any block:

        axis             must be a multiple of    or else
        second to last   8   (sublanes)           the array's whole axis
        last             128 (lanes)              the array's whole axis

    bfloat16 packs two rows into a sublane: its tile is (16, 128), 4 KiB again, and
    blocks of 8 rows, half a tile, are still accepted.

    No interpreter minds a (32, 32) block: the numbers come out right, and the first
    TPU refuses the kernel. That is why a check of its own asks for legal blocks. And
    legal is not yet fast: on a v5e, tripling a float32 matrix of 4096 x 4096 takes
    about 5 ms in blocks of (8, 128) and 0.16 ms, the pace of HBM, in (256, 512).

Shapes
    name     dtype[dims]               memory space   block
    x_ref    x.dtype[legal, legal]     VMEM           block (i, j) of x[M, N]
    o_ref    x.dtype[legal, legal]     VMEM           block (i, j) of the result[M, N]

Try
    pytest -k scale_2d          stuck?  kata hint scale_2d
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def scale_2d_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x * 3


def scale_2d_kernel(x_ref, o_ref):
    """Triple a block. Given: it works for a block of any shape."""
    o_ref[...] = x_ref[...] * 3


def scale_2d(x: Float[Array, "M N"], *, bm: int = 256, bn: int = 512) -> Float[Array, "M N"]:
    """Launch: a grid of two axes, so every index map takes two numbers, i and j."""
    m, n = x.shape
    # BEGIN SOLUTION
    bm = min((bm + 7) // 8 * 8, m)
    bn = min((bn + 127) // 128 * 128, n)
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    # END SOLUTION
    return pl.pallas_call(
        scale_2d_kernel,
        grid=(m // bm, n // bn),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x)


def test_scale_2d(hidden_case):
    hidden_case.grade(scale_2d)
