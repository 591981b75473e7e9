"""Write the whole launch of a kernel.

Goal
    The kernel is given: it adds to a block of x the larger of y and z, element by
    element. Write the launch that runs it over vectors of N elements in blocks of
    bn, with nothing given but the kernel. N is a multiple of bn.

Concept
    A launch is a description of all copies and of all steps. Each part of it
    answers one question:

        pl.pallas_call(
            kernel,             what happens to one set of blocks?
            grid=...,           how many steps are there, along which axes?
            in_specs=[...],     which block of each operand does a step read?
            out_specs=...,      which block of the result does a step write?
            out_shape=...,      how large is the whole result, and of which dtype?
            compiler_params=..., what may the compiler assume?
        )(x, y, z)              the operands, in the order of in_specs

    The kernel's parameters follow the same order: a Ref for each operand, then
    one for each result. Block shapes stand in the BlockSpecs only; out_shape is
    about the array in HBM, given as a `jax.ShapeDtypeStruct(shape, dtype)`.

    What the compiler may assume about the steps is said for each grid axis, with
    `pltpu.CompilerParams(dimension_semantics=(...))`:

        "parallel"     the steps along this axis do not need one another. A chip
                       with two cores (v4, v5p) may give half of them to each.
        "arbitrary"    a step may use what an earlier one left: run them in order,
                       on one core. This is assumed where you say nothing.

        one core     0  1  2  3  4  5  6  7
        two cores    0  1  2  3             "parallel": half the time
                     4  5  6  7

    "parallel" is a promise that nobody checks on the TPU: if steps share a result
    block, it comes out wrong. Here no two steps do.

    Who writes the launch also chooses bn. A step costs some 0.3 us however short its
    block is, for a copy takes that long to start and to be waited for. Adding two
    float32 vectors of 2**20 elements on a v5e, predicted from the compiled program:

        bn       1024     8192     65536    262144     at the pace of HBM
        time     319 us   45 us    16 us    16 us      15 us
        VMEM     24 KiB   192 KiB  1.5 MiB  6 MiB

    VMEM is 3 Refs of 2 buffers each. Blocks of some hundred KiB are long enough;
    longer ones only use up VMEM.

Shapes
    name     dtype[dims]    memory space   block
    x_ref    x.dtype[bn]    VMEM           block i of x[N]
    y_ref    x.dtype[bn]    VMEM           block i of y[N]
    z_ref    x.dtype[bn]    VMEM           block i of z[N]
    o_ref    x.dtype[bn]    VMEM           block i of the result[N]

Try
    pytest -k launch_vector_add          stuck?  kata hint launch_vector_add
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def launch_vector_add_spec(
    x: Float[Array, "N"], y: Float[Array, "N"], z: Float[Array, "N"]
) -> Float[Array, "N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x + jnp.maximum(y, z)


def launch_vector_add_kernel(x_ref, y_ref, z_ref, o_ref):
    """Add the larger of y and z to x. Given, and to be left as it is."""
    o_ref[...] = x_ref[...] + jnp.maximum(y_ref[...], z_ref[...])


def launch_vector_add(
    x: Float[Array, "N"], y: Float[Array, "N"], z: Float[Array, "N"], *, bn: int = 65536
) -> Float[Array, "N"]:
    """Launch: one grid step for each block of bn elements."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return pl.pallas_call(...)(x, y, z): grid, in_specs, out_specs, out_shape and dimension_semantics"
    )
    # END SOLUTION


def test_launch_vector_add(hidden_case):
    hidden_case.grade(launch_vector_add)
