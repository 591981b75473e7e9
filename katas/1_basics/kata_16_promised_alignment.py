"""Compare two windows of a block, whose start only the caller knows to be aligned.

Goal
    Each row of x is a signal. In block i of bm rows, all signals begin at column starts[i], a
    multiple of 128. Write the body of a kernel that returns how much they change within 128
    columns, from there on:

        o[r, c] = x[r, start + 128 + c] - x[r, start + c]      for W columns c

    The launch is given.

Concept
    starts_ref[i] is a number in memory. You know that it is a multiple of 128, since your
    colleague's code computes it like that. The compiler doesn't, and it needs to:

        columns           0 ... 127 | 128 ... 255 | 256 ... 383
        registers        |    A     |      B      |      C     |

        start = 128                  |<- 128 ->|                  one load: B
        start = 130                    |<- 128 ->|                B and C, both shifted

    A register has 128 lanes, and a column's lane is its number modulo 128. A slice that begins
    at a multiple of 128 is loaded register by register. From any other start, each register
    would have to be assembled from two. The compiler doesn't generate such code for a start
    that is computed: it refuses the kernel, unless it can prove that the start is aligned. It
    analyses products and sums. It knows nothing about a number in memory.

    `pl.multiple_of(a, k)` returns a, and promises the compiler that a is a multiple of k:

        first = pl.multiple_of(a, 128)
        x_ref[:, pl.ds(first, n)]           accepted
        x_ref[:, pl.ds(first + 256, n)]     accepted: the sum of two multiples of 128
        x_ref[:, pl.ds(first + 64, n)]      refused

    A TPU doesn't check a promise. If it is false, the kernel reads the wrong columns, and no
    error tells you. So promise no more than what holds in all calls. The grader's interpreter
    checks each promise.

    Several rows have the same rule, with 8 instead of 128. Kernels that read a cache page by
    page, or the rows of one expert, start at numbers in memory all the time.

Shapes
    name         dtype[dims]     memory space   Ref's shape   block
    starts_ref   int32[G]        SMEM           (G,)          whole
    x_ref        x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    o_ref        x.dtype[M, W]   VMEM           (bm, W)       (i, 0)

    The grid is (G,), G = M / bm. Every start is a multiple of 128, and start + 128 + W is at
    most N. W is a multiple of 128, too.

Try
    pytest -k promised_alignment          stuck?  kata hint promised_alignment

Needs     refs_and_slices
Read on   jax.experimental.pallas.multiple_of,
          https://docs.jax.dev/en/latest/_autosummary/jax.experimental.pallas.multiple_of.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32

LAG = 128


def promised_alignment_spec(
    starts: Int32[Array, "G"], x: Float[Array, "M N"], *, W: int
) -> Float[Array, "M W"]:
    """The required result, in plain jax.numpy."""
    start = jnp.repeat(starts, x.shape[0] // len(starts))
    column = start[:, None] + jnp.arange(W)
    here, later = (jnp.take_along_axis(x, column + lag, axis=1) for lag in (0, LAG))
    return later - here


def promised_alignment_kernel(starts_ref, x_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "load the W columns from this block's start on, and those 128 columns later; store their difference"
    )
    # END SOLUTION


def promised_alignment(
    starts: Int32[Array, "G"], x: Float[Array, "M N"], *, W: int = 2048, bm: int = 128
) -> Float[Array, "M W"]:
    """Launch: a step for each block of bm whole rows."""
    M, N = x.shape
    return pl.pallas_call(
        promised_alignment_kernel,
        grid=(M // bm,),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec((bm, N), lambda i: (i, 0)),
        ],
        out_specs=pl.BlockSpec((bm, W), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M, W), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="promised_alignment",
    )(starts, x)


# ---- Given: inputs and helpers. ----


def promised_alignment_inputs(key, *, M, N, W, bm, dtype):
    """Starts at column 0, at 128, at the last possible one, and at any multiple of 128."""
    x_key, start_key, order_key = jax.random.split(key, 3)
    last = (N - W) // LAG - 1
    some = jax.random.randint(start_key, (M // bm,), 0, last + 1)
    edges = jnp.array([1, last, 0])[: M // bm]
    starts = jax.random.permutation(order_key, jnp.concatenate([edges, some[edges.size :]]))
    return starts.astype(jnp.int32) * LAG, jax.random.normal(x_key, (M, N)).astype(dtype)


def test_promised_alignment(hidden_case):
    hidden_case.grade(promised_alignment)
