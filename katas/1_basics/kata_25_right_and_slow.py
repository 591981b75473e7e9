"""Find out why a colleague's layer takes fifty times as long as it should.

Goal
    The launch below multiplies x by the weights w. Its results are right, but it is obviously
    slow: 1024 tokens by weights of 4096 x 6144 take 16.4 ms on a v5e, and should take
    0.30 ms. Repair it. You choose the block sizes. They must divide M, N and K, which are
    powers of two from 128 to 2048 in the graded cases, and multiples of 1024 at production
    size: min(M, 256) suits all of them.

Concept
    Three tools show you a kernel, from the inside out:

        pl.debug_print("i={} j={} k={}", i, j, k)
            prints from inside the body, in every grid step. Here even the
            number of lines is a clue.
        kata view right_and_slow
            draws the block of each operand that each step needs, and marks blocks that
            were fetched before.
        kata cost right_and_slow
            shows bytes, time and what bounds it. kata cost right_and_slow
            K=2048 and other sizes show what the time grows with.

    In a slow kernel that is right, no line is wrong. So calculate before you change anything.
    Each of these numbers follows from the grid, the index maps and the block shapes alone:

        steps             the product of the grid axes. A step that copies a block takes
                          about 0.33 µs, even if it has hardly any work
        work of a step    2 * bm * bn * bk operations, at 197 TFLOP/s
        bytes of a step   the blocks whose index differs from the step before
        fetches of w      how many times each block of w comes from HBM: once for
                          each value of the axes that w's index map leaves out,
                          if an axis that it uses changes faster

    Then compare three times: of the steps, of the work, and of the bytes at 819 GB/s. Reduce
    the longest; then another one of the three is the longest. A repair that considers only
    the first gets stuck at the second.

    VMEM is the limit. Each block that changes is in VMEM twice, the accumulator is one more
    block, in float32, and together they must fit into the 16 MiB that a kernel gets unless it
    requests more.

Shapes
    name      dtype[dims]       memory space   Ref's shape             block
    x_ref     bfloat16[M, K]    VMEM           yours, (32, 128) now    (i, k)
    w_ref     bfloat16[K, N]    VMEM           yours, (128, 128) now   (k, j)
    o_ref     bfloat16[M, N]    VMEM           yours, (32, 128) now    (i, j)
    acc_ref   float32[bm, bn]   VMEM scratch   like o_ref's            -

Try
    pytest -k right_and_slow           stuck?  kata hint right_and_slow

Needs     launch_matmul, revisit_bug
Read on   Matrix Multiplication, https://docs.jax.dev/en/latest/pallas/tpu/matmul.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, BFloat16


def right_and_slow_spec(
    x: BFloat16[Array, "M K"], w: BFloat16[Array, "K N"]
) -> BFloat16[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.dot(x, w)


def right_and_slow_kernel(x_ref, w_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def right_and_slow(x: BFloat16[Array, "M K"], w: BFloat16[Array, "K N"]) -> BFloat16[Array, "M N"]:
    """Launch: the blocks and the order of the steps. The last axis walks along K."""
    M, K = x.shape
    N = w.shape[1]
    # BEGIN SOLUTION
    bm, bn, bk = 32, 128, 128
    grid = (M // bm, N // bn, K // bk)
    x_spec = pl.BlockSpec((bm, bk), lambda i, j, k: (i, k))
    w_spec = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    o_spec = pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))
    # END SOLUTION
    return pl.pallas_call(
        right_and_slow_kernel,
        grid=grid,
        in_specs=[x_spec, w_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="right_and_slow",
    )(x, w)


def test_right_and_slow(hidden_case):
    hidden_case.grade(right_and_slow)
