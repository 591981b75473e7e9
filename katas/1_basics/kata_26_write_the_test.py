"""Write a test that wrong kernels fail.

Goal
    dense is a kernel that works. Write write_the_test(launch), which calls a launch with the
    signature of dense, at sizes and with inputs that you choose, and raises an AssertionError
    if the results aren't right. It must accept right kernels, including one that adds in
    another order than dense. And it must raise for each of eight wrong kernels, which you
    don't get to see. Every hidden case tries two of them.

Concept
    So far the grader has chosen the sizes and inputs. For your own kernel, you choose them.
    Most wrong kernels pass a test that calls them once, at a convenient size and with
    convenient numbers:

        x = ones(128, 128), one block         what goes unseen
        +-----------+
        | 1 1 1 1 1 |      a second block of rows, of columns, of the sum
        | 1 1 1 1 1 |      which of the blocks was read
        | 1 1 1 1 1 |      what happens at a ragged edge
        | 1 1 1 1 1 |      anything about a negative number
        +-----------+      any error that is smaller than the tolerance
    Ask of each line of the kernel: if it were wrong, which call would show it?

      - How many blocks does each axis of the grid need for a mistake in its
        index maps to have an effect? Which sizes may have a ragged edge?
      - Which two blocks must differ for a mix-up to show? Inputs that
        repeat, constants and zeros all hide mistakes. Random numbers from a
        fixed key differ everywhere, and are the same in every run.
      - Which branch of the function do your numbers reach? In a maximum, both
        sides must win somewhere.
      - How small an error must the test find? A float32 result of K products of
        numbers around 1 is right to about sqrt(K) * 2**-24 of their size. In
        bfloat16, whose mantissa has 8 bits, a running sum is off by 1 % soon.
        A tolerance between the two separates them. But a right kernel may add
        in another order, so exact equality is too strict.
      - Which values are in elements that a kernel hasn't written? Here NaN, and
        every comparison with NaN is false. Write the condition so that this fails
        the test; jnp.max doesn't help, since on a CPU it may ignore NaN.

    A test is a program with an oracle: something simple and slow that gives the right result.
    Here that is dense_spec. An oracle can also be a property that holds for all inputs: for
    example, scaling x by 2 scales a linear result by 2.

    The launch that you get can't be traced by jit. Each call costs about a tenth of a second;
    a handful of small ones is enough.

Shapes
    name      dtype[dims]       memory space   Ref's shape   block
    x_ref     float32[M, K]     VMEM           (bm, bk)      (i, k)
    w_ref     float32[K, N]     VMEM           (bk, bn)      (k, j)
    b_ref     float32[1, N]     VMEM           (1, bn)       (0, j)
    o_ref     float32[M, N]     VMEM           (bm, bn)      (i, j)
    acc_ref   float32[bm, bn]   VMEM scratch   (bm, bn)      -

Try
    pytest -k write_the_test           stuck?  kata hint write_the_test

Needs     fused_matmul, ragged_tail
Read on   QuickCheck: random testing of programs, https://doi.org/10.1145/351240.351266
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float32


def dense_spec(
    x: Float32[Array, "M K"], w: Float32[Array, "K N"], b: Float32[Array, "1 N"]
) -> Float32[Array, "M N"]:
    """What dense must compute, in plain jax.numpy."""
    return jnp.maximum(jnp.dot(x, w, precision=jax.lax.Precision.HIGHEST) + b, 0)


def dense_kernel(x_ref, w_ref, b_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], precision=jax.lax.Precision.HIGHEST)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = jnp.maximum(acc_ref[...] + b_ref[...], 0)


def dense(
    x: Float32[Array, "M K"],
    w: Float32[Array, "K N"],
    b: Float32[Array, "1 N"],
    *,
    bm: int = 8,
    bn: int = 128,
    bk: int = 128,
) -> Float32[Array, "M N"]:
    """The kernel under test: a layer of a network. K and N are multiples of their blocks."""
    M, K = x.shape
    N = w.shape[1]
    if K % bk or N % bn:
        raise ValueError(f"K={K} and N={N} have to be multiples of bk={bk} and bn={bn}")
    return pl.pallas_call(
        dense_kernel,
        grid=(pl.cdiv(M, bm), N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, bn), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        name="dense",
    )(x, w, b)


def write_the_test(launch):
    """Raise an AssertionError unless launch(x, w, b, bm=…, bn=…, bk=…) is a right dense."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "call launch at sizes and with inputs that show mistakes, and compare with dense_spec"
    )
    # END SOLUTION


def test_write_the_test(hidden_case):
    hidden_case.grade(write_the_test)
