"""Fix a matmul that passes its tests on a CPU and returns garbage on a TPU.

Goal
    A colleague needed x @ y in float32 and changed launch_matmul in two ways.
    The result is float32, so o_ref is also the accumulator, as in row_sum, and
    there is no scratch. And the grid now goes through a whole row of y's blocks
    while a block of x stays in VMEM, so each block of x is fetched only once:

        for i in range(M // bm):
            for k in range(K // bk):
                for j in range(N // bn):
                    one step

    With interpret=True every test passes. On a TPU the result is garbage. The
    kernel is right. Fix the launch, between the markers.

Concept
    Plain interpret mode works on whole arrays. In each step it cuts the output
    block out of the result, runs the body, and puts the block back. So what one
    step stores, every later step can read.

    A TPU works differently. The result is in HBM, and the body sees one of two
    buffers in VMEM, each as large as a block. After each step, Pallas compares
    the output block's indices in this step and in the next. If they are the same,
    nothing is copied and the next step gets the same buffer. If they differ, this
    buffer is copied to HBM and the next step gets the other buffer, so the body
    doesn't have to wait for the copy:

        output block    A       A       A   |   B       B   |   C     time ->
        o_ref is       [-------- buffer 0 -][-- buffer 1 --][ buffer 0 --
        being copied                         A to HBM        B to HBM

    Look at buffer 0 when it is used for C: it isn't cleared, and C isn't read
    from HBM. Output blocks are copied in one direction only. Their index map
    tells Pallas where to write a block, never where to read it from. In the
    first step of C, the body finds what is left of A.

    Now write down the output block of every step of your colleague's grid, for
    example for 2 x 2 x 2 blocks, and follow the buffers. How many times is a
    block copied to HBM, and what is in it each time?

    When you have fixed it, compare two costs. How much traffic did your colleague
    save by fetching each block of x only once? How much would it take to read
    each block of the result back from HBM at every visit?

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, K]   VMEM           (bm, bk)      (i, k)
    y_ref   x.dtype[K, N]   VMEM           (bk, bn)      (k, j)
    o_ref   float32[M, N]   VMEM           (bm, bn)      (i, j)

    k_axis is a Python int: the grid axis that walks along K.

Try
    pytest -k revisit_bug           stuck?  kata hint revisit_bug

Needs     tiled_matmul
Read on   Writing TPU kernels with Pallas, https://docs.jax.dev/en/latest/pallas/tpu/details.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def revisit_bug_spec(x: Float[Array, "M K"], y: Float[Array, "K N"]) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.dot(x, y, preferred_element_type=jnp.promote_types(x.dtype, jnp.float32))


def revisit_bug_kernel(x_ref, y_ref, o_ref, *, k_axis):
    @pl.when(pl.program_id(k_axis) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def revisit_bug(
    x: Float[Array, "M K"], y: Float[Array, "K N"], *, bm: int = 512, bn: int = 512, bk: int = 512
) -> Float32[Array, "M N"]:
    """Launch: the order of the steps and what each of them sees."""
    M, K = x.shape
    _, N = y.shape
    # BEGIN SOLUTION
    k_axis = 1
    grid = (M // bm, K // bk, N // bn)
    x_spec = pl.BlockSpec((bm, bk), lambda i, k, j: (i, k))
    y_spec = pl.BlockSpec((bk, bn), lambda i, k, j: (k, j))
    o_spec = pl.BlockSpec((bm, bn), lambda i, k, j: (i, j))
    dimension_semantics = ("parallel", "arbitrary", "arbitrary")
    # END SOLUTION
    return pl.pallas_call(
        lambda x_ref, y_ref, o_ref: revisit_bug_kernel(x_ref, y_ref, o_ref, k_axis=k_axis),
        grid=grid,
        in_specs=[x_spec, y_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=dimension_semantics),
        name="revisit_bug",
    )(x, y)


def test_revisit_bug(hidden_case):
    hidden_case.grade(revisit_bug)
