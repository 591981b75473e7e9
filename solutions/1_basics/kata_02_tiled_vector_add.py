"""Add two long vectors, one block at a time.

Goal
    Write the body of a kernel that adds two vectors. The launch is given: it
    cuts the vectors into blocks of bn elements and runs your body once for each
    block. Read the launch closely: in launch_vector_add you write one yourself.

Concept
    In constant_add the whole vector was in VMEM. A long vector does not fit: a TPU
    v5e has 16 GiB of HBM, but by default the compiler gives a kernel only 16 MiB
    of VMEM, and x, y and x + y take 24 MiB if each has 2**21 float32 numbers.
    So the launch divides the work into *grid steps*, with two arguments:

        grid=(n,)                      run the body n times: step 0, 1, ... n-1
        BlockSpec(shape, index_map)    which block of one array a Ref holds

    The index map takes the number of the step and returns the number of a block.
    It counts in blocks, not in elements. `lambda i: (i,)` says "in step i, use
    block i":

        x in HBM    | block 0 | block 1 | block 2 | block 3 |     4 * bn elements
                                   |
                                   v
        step 1                 |  x_ref  |                        bn elements

    Your body sees one block and nothing else: x_ref[0] is the first element of
    the block, not of the vector. Each Ref has two buffers. While the body works
    on one block, the next block is copied in and the previous result is copied
    out:

        copy in    x0 y0 | x1 y1 | x2 y2 | x3 y3 |
        your body        |   0   |   1   |   2   |   3   |
        copy out                 |  o0   |  o1   |  o2   |  o3   |   -> time

    Not every bn is legal. A vector register holds 8 rows of 128 lanes, which is
    1024 32-bit numbers, and HBM stores a long vector in tiles of that size. So a
    block of a vector may be

        the whole vector,
        a multiple of 1024 (whole tiles), or
        a smaller power of two, but at least one row of lanes: 128 float32, or
        256 bfloat16, because two bfloat16 numbers share a lane.

Shapes
    name    dtype[dims]   memory space   Ref's shape   block
    x_ref   x.dtype[N]    VMEM           (bn,)         i
    y_ref   x.dtype[N]    VMEM           (bn,)         i
    o_ref   x.dtype[N]    VMEM           (bn,)         i

Try
    pytest -k tiled_vector_add          stuck?  kata hint tiled_vector_add

Needs     constant_add
Read on   Software Pipelining, https://docs.jax.dev/en/latest/pallas/pipelining.html
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def tiled_vector_add_spec(x: Float[Array, "N"], y: Float[Array, "N"]) -> Float[Array, "N"]:
    """The required result, in plain jax.numpy."""
    return x + y


def tiled_vector_add_kernel(x_ref, y_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] + y_ref[...]
    # END SOLUTION


def tiled_vector_add(
    x: Float[Array, "N"], y: Float[Array, "N"], *, bn: int = 65536
) -> Float[Array, "N"]:
    """Launch: one grid step for each block of bn elements; bn divides N."""
    return pl.pallas_call(
        tiled_vector_add_kernel,
        grid=(x.shape[0] // bn,),
        in_specs=[
            pl.BlockSpec((bn,), lambda i: (i,)),  # x_ref: in step i, block i of x
            pl.BlockSpec((bn,), lambda i: (i,)),  # y_ref: in step i, block i of y
        ],
        out_specs=pl.BlockSpec((bn,), lambda i: (i,)),  # o_ref: becomes block i of the result
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),  # the whole result, in HBM
        # No step needs another's result, so they may run in any order: see launch_vector_add.
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="tiled_vector_add",
    )(x, y)


def test_tiled_vector_add(hidden_case):
    hidden_case.grade(tiled_vector_add)
