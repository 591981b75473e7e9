"""Add a constant to every element of an array.

Goal
    Write the body of a kernel that adds 10 to every element of a vector.
    The launch (the call to `pallas_call`) is given: it copies x into the
    core's memory, runs your body once, and copies the result back.

Concept
    A Pallas kernel does not receive arrays. It receives *Refs*: references to
    memory that has already been filled (an input) or that you have to fill
    (an output). A kernel returns nothing: what you store is the result.

    Why Refs? The vector unit of a TPU core, the VPU, computes only on values in
    registers, and it fills them only from VMEM, a scratchpad memory of many MiB
    next to the core. The array itself is in HBM, which holds many GB but is far
    away:

          HBM                    VMEM                 registers
        +-----------+  copied  +---------+   load    +-------+
        | x         | -------> | x_ref   | --------> |       |
        |           |          |         |           |  VPU  |  x + 10
        | result    | <------- | o_ref   | <-------- |       |
        +-----------+  copied  +---------+   store   +-------+
                         ^                     ^
                  pallas_call does this    your kernel does this

    `pallas_call` makes the two copies. Your kernel does the load and the store,
    which look like NumPy indexing on a Ref:

        ref[...]            load the whole block: a value you can compute with
        ref[...] = value    store a value over the whole block

    A Ref is not an array, so you have to index it before you do arithmetic. An
    output Ref starts with whatever bits were in that memory, so don't read it
    before you have written to it. In this kata the body runs exactly once, and
    both Refs hold all N elements.

    The value that you store must match the Ref's shape and dtype: a bfloat16
    output takes a bfloat16 value. Adding a Python number to an array does not
    change the array's dtype.

Shapes
    name    dtype[dims]   memory space   Ref's shape   block
    x_ref   x.dtype[N]    VMEM           (N,)          whole
    o_ref   x.dtype[N]    VMEM           (N,)          whole

Try
    pytest -k constant_add          stuck?  kata hint constant_add

Needs     nothing
Read on   Pallas Quickstart, https://docs.jax.dev/en/latest/pallas/quickstart.html
"""

import jax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def constant_add_spec(x: Float[Array, "N"]) -> Float[Array, "N"]:
    """The required result, in plain jax.numpy."""
    return x + 10


def constant_add_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] + 10
    # END SOLUTION


def constant_add(x: Float[Array, "N"]) -> Float[Array, "N"]:
    """Launch: no grid and no BlockSpecs, so each Ref is one whole array in VMEM."""
    return pl.pallas_call(
        constant_add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        name="constant_add",
    )(x)


def test_constant_add(hidden_case):
    hidden_case.grade(constant_add)
