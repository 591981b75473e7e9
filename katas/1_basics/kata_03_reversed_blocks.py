"""Reverse the order of a vector's blocks by writing index maps only.

Goal
    Cut x into blocks of bn elements and return the blocks in reverse order. The
    elements within a block keep their order. The kernel is given: it only copies
    a block. You write the two index maps, one for x and one for the result.

        x         | A0 A1 .. | B0 B1 .. | C0 C1 .. | D0 D1 .. |
        result    | D0 D1 .. | C0 C1 .. | B0 B1 .. | A0 A1 .. |

Concept
    A kernel body does not know where its block comes from or where it goes. The
    index maps decide both. If you change a map, the same body produces a
    different result. This separation is the main idea of Pallas:

        index map of x         which block is copied from HBM into x_ref
        body                   what is computed from that block in VMEM
        index map of result    where in HBM o_ref is copied to

                        step 0     step 1     step 2     step 3
        x_ref holds    x_index(0) x_index(1) x_index(2) x_index(3)
                           |          |          |          |
                          body       body       body       body
                           |          |          |          |
        o_ref becomes  o_index(0) o_index(1) o_index(2) o_index(3)

    Moving blocks this way costs nothing. A DMA engine copies each block. It is
    given an address in HBM, an address in VMEM and a length, and all addresses
    cost the same. Before each step, the core's scalar unit computes these
    addresses from the index maps, in parallel with the vector unit that runs
    your body. So to move whole blocks, change their addresses: the vector unit
    has nothing to do.

    Three things to know about an index map:

      * It returns a tuple with one block number for each dimension of the array,
        so here the tuple has length one. The number counts blocks: Pallas
        computes the start in elements for you.
      * Its argument is traced, like an argument under `jax.jit`. You can do
        arithmetic with it, but you can't use it in a Python `if`. You can use
        plain Python integers from the enclosing function, such as `steps`.
      * Block numbers are not Python indices. Block -1 is not the last block: it
        would start before the beginning of the array.

    The index map of a result has one more duty: over all steps, it must return
    every block of the result. A block that it leaves out is never written.

Shapes
    name    dtype[dims]   memory space   Ref's shape   block
    x_ref   x.dtype[N]    VMEM           (bn,)         x_index(i)
    o_ref   x.dtype[N]    VMEM           (bn,)         o_index(i)

Try
    pytest -k reversed_blocks          stuck?  kata hint reversed_blocks

Needs     tiled_vector_add
Read on   Grids and BlockSpecs, https://docs.jax.dev/en/latest/pallas/grid_blockspec.html
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def reversed_blocks_spec(x: Float[Array, "N"], *, bn: int) -> Float[Array, "N"]:
    """The required result, in plain jax.numpy."""
    return x.reshape(-1, bn)[::-1].reshape(-1)


def reversed_blocks_kernel(x_ref, o_ref):
    """Copy a block. Given: do not change it."""
    o_ref[...] = x_ref[...]


def reversed_blocks(x: Float[Array, "N"], *, bn: int = 65536) -> Float[Array, "N"]:
    """Launch: one grid step for each block of bn elements; bn divides N."""
    steps = x.shape[0] // bn

    def x_index(i):
        # BEGIN SOLUTION
        raise NotImplementedError(
            "return from x_index a tuple with the number of the block of x that step i reads"
        )
        # END SOLUTION

    def o_index(i):
        # BEGIN SOLUTION
        raise NotImplementedError(
            "return from o_index a tuple with the number of the block of the result that step i writes"
        )
        # END SOLUTION

    return pl.pallas_call(
        reversed_blocks_kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec((bn,), x_index)],
        out_specs=pl.BlockSpec((bn,), o_index),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="reversed_blocks",
    )(x)


def test_reversed_blocks(hidden_case):
    hidden_case.grade(reversed_blocks)
