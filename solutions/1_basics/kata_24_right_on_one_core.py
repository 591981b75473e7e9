"""Find out why a colleague's running sum is right on a v5e and wrong on a v5p.

Goal
    The kernel below sums the rows of x from the top down: row m of the result is the sum of
    rows 0 to m. It has passed every test on a v5e, at all sizes. On a v5p, the same program
    sometimes returns sums that are too small in the lower half of the result. Repair it.

Concept
    Three tools show you a kernel, from the inside out:

        pl.debug_print("j={} i={} carry={}", j, i, carry_ref[0, 0])
            prints from inside the body, in every grid step. Print the
            values that a step finds in memory before it writes there.
        kata view right_on_one_core
            draws the order of the steps, the block of each operand in each, and
            which elements of the result are wrong.
        kata cost right_on_one_core --chip v5p
            shows bytes and time, on a chip with two cores as well.

    Within a block, one product with a triangle of ones computes the sums. From block to
    block, scratch memory carries a row of sums:

        x              block sums        result
        +---------+
        | block 0 |   tri @ block 0              ->  carry = its last row
        +---------+                                      |
        | block 1 |   tri @ block 1  +  carry  <---------+
        +---------+                                      |
        | block 2 |   tri @ block 2  +  carry  <---------+

    When a program is right on one chip and wrong on another, don't look for a fault in the
    second. Ask which behaviour of the first isn't guaranteed. A v5e has one TensorCore, which
    walks the grid from the first step to the last, whatever you declare about the axes. A v5p
    has two TensorCores that share HBM, and each has its own VMEM. Which steps go to which
    core? What does each core find in its scratch memory when it begins?

    A parallel grid axis is a promise, and the compiler believes it. Check the axes one by
    one: if the steps along this axis ran in another order, or at the same time, would each of
    them still read the right values? A repair that declares no axis parallel is right, but
    leaves one of the two cores idle.

    The interpreter that grades you has two cores, like a v5p, and reports unordered accesses
    to the same memory.

Shapes
    name        dtype[dims]      memory space   Ref's shape   block
    x_ref       x.dtype[M, N]    VMEM           (bm, bn)      (i, j)
    o_ref       float32[M, N]    VMEM           (bm, bn)      (i, j)
    carry_ref   float32[1, bn]   VMEM scratch   (1, bn)       -

Try
    pytest -k right_on_one_core           stuck?  kata hint right_on_one_core

Needs     row_sum, launch_matmul
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def right_on_one_core_spec(x: Float[Array, "M N"]) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.cumsum(x.astype(jnp.promote_types(x.dtype, jnp.float32)), axis=0)


def right_on_one_core(
    x: Float[Array, "M N"], *, bm: int = 256, bn: int = 512
) -> Float32[Array, "M N"]:
    """Sum the rows from the top down, block by block."""
    M, N = x.shape
    # BEGIN SOLUTION
    grid = (N // bn, M // bm)
    block = pl.BlockSpec((bm, bn), lambda j, i: (i, j))
    dimension_semantics = ("parallel", "arbitrary")

    def kernel(x_ref, o_ref, carry_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            carry_ref[...] = jnp.zeros_like(carry_ref)

        row = jax.lax.broadcasted_iota(jnp.int32, (bm, bm), 0)
        column = jax.lax.broadcasted_iota(jnp.int32, (bm, bm), 1)
        triangle = (column <= row).astype(jnp.float32)
        x = x_ref[...].astype(jnp.float32)
        sums = jnp.dot(triangle, x, precision=jax.lax.Precision.HIGHEST) + carry_ref[...]
        o_ref[...] = sums
        carry_ref[...] = sums[bm - 1 :]

    # END SOLUTION
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((1, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=dimension_semantics),
        name="right_on_one_core",
    )(x)


def test_right_on_one_core(hidden_case):
    hidden_case.grade(right_on_one_core)
