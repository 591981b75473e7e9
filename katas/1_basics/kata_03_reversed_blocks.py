"""Reverse the order of a vector's blocks by writing index maps only.

Goal
    Cut x into blocks of bn elements and return them in reverse order. Within a
    block the elements stay as they are. The kernel is given, and it only copies
    a block; you write the two index maps, one for x and one for the result.

        x         | A0 A1 .. | B0 B1 .. | C0 C1 .. | D0 D1 .. |
        result    | D0 D1 .. | C0 C1 .. | B0 B1 .. | A0 A1 .. |

Concept
    A kernel body does not know where its block came from, nor where it will go.
    Both are decided outside, by the index maps. Change a map, and the same body
    does something else. That division of labour is Pallas' main idea:

        index map of x         which block is copied from HBM into x_ref
        body                   what becomes of it in VMEM
        index map of result    to which place in HBM o_ref is copied back

                        step 0     step 1     step 2     step 3
        x_ref holds    x_index(0) x_index(1) x_index(2) x_index(3)
                           |          |          |          |
                          body       body       body       body
                           |          |          |          |
        o_ref becomes  o_index(0) o_index(1) o_index(2) o_index(3)

    It costs nothing. A block is copied by a DMA engine, which is told an address
    in HBM, an address in VMEM and a length; one address is as good as another.
    Before each step the core's scalar unit evaluates the index maps to obtain
    these addresses, beside the vector unit that runs your body. To move data by
    whole blocks, move the addresses, and leave the vector unit alone.

    Three things to know about an index map:

      * It returns a tuple with one block number for each axis of the array, here
        of length one. The number counts blocks: the start in elements is
        computed for you.
      * Its argument is traced, like any value under `jax.jit`. Arithmetic on it
        is fine; a Python `if` on it is not. Values of the enclosing function
        that are plain Python integers, such as `steps`, may be used.
      * Block numbers are not Python indices. Block -1 is not the last block, it
        lies in front of the array.

    The index map of a result has one duty more: over all steps, every block has
    to get its turn, or a part of the result keeps the bits it started with.

Shapes
    name     dtype[dims]    memory space   block
    x_ref    x.dtype[bn]    VMEM           block x_index(i) of x[N]
    o_ref    x.dtype[bn]    VMEM           block o_index(i) of the result[N]

Try
    pytest -k reversed_blocks          stuck?  kata hint reversed_blocks
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def reversed_blocks_spec(x: Float[Array, "N"], *, bn: int) -> Float[Array, "N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x.reshape(-1, bn)[::-1].reshape(-1)


def reversed_blocks_kernel(x_ref, o_ref):
    """Copy a block. Given, and to be left as it is."""
    o_ref[...] = x_ref[...]


def reversed_blocks(x: Float[Array, "N"], *, bn: int = 65536) -> Float[Array, "N"]:
    """Launch: one grid step for each block of bn elements; bn divides N."""
    steps = x.shape[0] // bn

    def x_index(i):
        # BEGIN SOLUTION
        raise NotImplementedError(
            "return, as a tuple, the number of the block of x that step i reads"
        )
        # END SOLUTION

    def o_index(i):
        # BEGIN SOLUTION
        raise NotImplementedError(
            "return, as a tuple, the number of the block of the result that step i writes"
        )
        # END SOLUTION

    return pl.pallas_call(
        reversed_blocks_kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec((bn,), x_index)],
        out_specs=pl.BlockSpec((bn,), o_index),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def test_reversed_blocks(hidden_case):
    hidden_case.grade(reversed_blocks)
