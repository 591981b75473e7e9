"""Add a constant to every element of an array.

Goal
    Write the body of a kernel that adds 10 to every element of a vector.
    The launch is given: it brings x into the core's memory, runs your body
    once, and takes the result back.

Concept
    A Pallas kernel does not receive arrays. It receives *Refs*: handles to
    memory that has already been filled (an input) or is waiting to be filled
    (an output). Nothing is returned; what you store is the result.

    Why handles? A TPU core computes only on what is in its registers, and its
    registers are fed only from VMEM, a scratchpad of megabytes that sits beside
    the core. The array itself lives in HBM, gigabytes large and far away:

          HBM                    VMEM                 registers
        +-----------+  copied  +---------+   load    +-------+
        | x         | -------> | x_ref   | --------> |       |
        |           |          |         |           |  VPU  |  x + 10
        | result    | <------- | o_ref   | <-------- |       |
        +-----------+  copied  +---------+   store   +-------+
                         ^                     ^
                  pallas_call does this    your kernel does this

    The two copies are written by `pallas_call`. The load and the store are
    yours, and they look like NumPy indexing on a Ref:

        ref[...]            load the whole block: a value you can compute with
        ref[...] = value    store a value over the whole block

    The Ref itself is no array, so arithmetic on it means nothing until it is
    indexed. An output Ref starts with whatever bits were in that memory, so
    read it only after you have written it. Here both Refs hold all N elements:
    there is no grid yet, the body runs exactly once. The store must match the
    Ref's shape and dtype: a bfloat16 output takes a bfloat16 value, and adding
    a Python number leaves the dtype of an array as it is.

Shapes
    name     dtype[dims]    memory space   block
    x_ref    x.dtype[N]     VMEM           all of x
    o_ref    x.dtype[N]     VMEM           all of the result

Try
    pytest -k constant_add          stuck?  kata hint constant_add
"""

import jax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def constant_add_spec(x: Float[Array, "N"]) -> Float[Array, "N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x + 10


def constant_add_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "load the block from x_ref, add 10, store the result in o_ref"
    )
    # END SOLUTION


def constant_add(x: Float[Array, "N"]) -> Float[Array, "N"]:
    """Launch: no grid and no BlockSpecs, so each Ref is one whole array in VMEM."""
    return pl.pallas_call(
        constant_add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def test_constant_add(hidden_case):
    hidden_case.grade(constant_add)
