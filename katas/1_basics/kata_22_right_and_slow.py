"""Find out why a colleague's layer takes fifty times as long as it should.

Goal
    The launch below multiplies x by the weights w. Its results are right, and
    no profiler is needed to see that something is wrong with it: 1024 tokens
    by weights of 4096 x 6144 take 16.4 ms on a v5e, and should take 0.30 ms.
    Repair it. Block sizes are yours to choose. They have to divide M, N and K,
    which are powers of two from 128 to 2048 in the cases that are run, and
    multiples of 1024 at production size: min(M, 256) suits all of them.

Concept
    Three ways to look at somebody's kernel, from the nearest to the furthest:

        pl.debug_print("i={} j={} k={}", i, j, k)
            prints from inside of the body, in every grid step. Here the number
            of lines says something already.
        kata view right_and_slow
            draws which block of each operand each step needs, and which of them
            were fetched before.
        kata cost right_and_slow
            shows bytes, time and what bounds it. kata cost right_and_slow
            K=2048 and other sizes show what the time grows with.

    A slow kernel that is right has nothing to point at. So do the sum before
    you change anything. Each of these numbers follows from the grid, the index
    maps and the block shapes alone:

        steps             the product of the grid. A step takes about 0.33 µs, even
                          if there is hardly anything to do in it
        work of a step    2 * bm * bn * bk operations, at 197 TFLOP/s
        bytes of a step   the blocks whose index differs from the step before
        fetches of w      how many times each block of w comes from HBM: once for
                          each value of the axes that w's index map leaves out,
                          if an axis that it uses changes faster

    Then compare: the time that the steps take, the time of the work, and the
    time of the bytes at 819 GB/s. The largest of the three is what you have to
    make smaller, and then it's another one's turn. A repair that looks only at
    the first gets stuck at the second.

    What limits you is VMEM. Of the blocks that change there are two in VMEM at a
    time, the accumulator is another one, in float32, and together they have to
    fit into the 16 MiB that a kernel gets unless it asks for more.

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
    """What the kernel must compute, in plain jax.numpy."""
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
