"""Add the two halves of a block of ring buffers, starting where each ring begins.

Goal
    Each row of x holds two rings of N / 2 numbers, side by side. Write the body of a kernel
    that adds them elementwise and rotates the sum so that the ring's first number comes
    first. A half has strips of bn columns, and in block i of rows, both rings begin with
    strip starts[i] of their half. The launch is given.

Concept
    A model keeps the last N / 2 values of a sequence in a ring buffer: a new value overwrites
    the oldest one, so the oldest can be anywhere. x_ref is a block of bm whole rows and stays
    in VMEM for N / 2 / bn steps. Each step writes one strip of bn columns. Here there are
    four strips, and the ring begins at strip 2:

        x_ref     |  0  :  1  :  2  :  3  |  4  :  5  :  6  :  7  |
                  |  left half  ^         |  right half ^         |
                              start                   start
        result    | 2+6 : 3+7 : 0+4 : 1+5 |
        step j       0     1     2     3

    So a step needs a part of x_ref whose position depends on j and on a number in memory.
    Two tools handle parts of a Ref.

    A *slice* loads only a part. Its size must be known when the kernel is compiled; its start
    needn't be. `x_ref[:, a:a + bn]` fails if the kernel computes a. `pl.ds(a, bn)`, "a
    dynamic slice", takes a start and a size:

        x_ref[:, pl.ds(a, bn)]      bm rows, and bn columns from column a on

    Slice the Ref, not the value. x_ref[...] loads everything. A slice of that value at a
    computed start would have to find its columns in registers, and a TPU's compiler has no
    such operation.

    A *view* is a Ref for a part of another Ref. `x_ref.at[...]` takes the same indices as
    x_ref[...] and loads nothing. You can slice a view again, counting from its own column 0,
    and pass it to functions that take Refs.

    A register has 128 lanes, and a column's lane is its number modulo 128. If a slice starts
    at a multiple of 128, its load is a plain load. So the compiler has to prove that a
    computed start is such a multiple. It can for products with bn, and for their sums.

Shapes
    name         dtype[dims]       memory space   Ref's shape   block
    starts_ref   int32[G]          SMEM           (G,)          whole
    x_ref        x.dtype[M, N]     VMEM           (bm, N)       (i, 0)
    o_ref        x.dtype[M, N/2]   VMEM           (bm, bn)      (i, j)

    The grid is (G, N / 2 / bn), G = M / bm. SMEM is the memory of scalars:
    starts_ref[i] is one number. bn is a multiple of 128.

Try
    pytest -k refs_and_slices          stuck?  kata hint refs_and_slices

Needs     scale_2d, row_sum
Read on   Pallas design: Refs and their slices,
          https://docs.jax.dev/en/latest/pallas/design/design.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def refs_and_slices_spec(
    starts: Int32[Array, "G"], x: Float[Array, "M N"], *, bn: int
) -> Float[Array, "M N//2"]:
    """The required result, in plain jax.numpy."""
    M, N = x.shape
    left, right = x[:, : N // 2], x[:, N // 2 :]
    start = jnp.repeat(starts * bn, M // len(starts))
    column = (start[:, None] + jnp.arange(N // 2)) % (N // 2)
    return jnp.take_along_axis(left + right, column, axis=1)


def refs_and_slices_kernel(starts_ref, x_ref, o_ref):
    # BEGIN SOLUTION
    i, j = pl.program_id(0), pl.program_id(1)
    half, bn = x_ref.shape[1] // 2, o_ref.shape[1]
    left, right = x_ref.at[:, :half], x_ref.at[:, half:]
    strip = (starts_ref[i] + j) % (half // bn)
    columns = pl.ds(strip * bn, bn)
    o_ref[...] = left[:, columns] + right[:, columns]
    # END SOLUTION


def refs_and_slices(
    starts: Int32[Array, "G"], x: Float[Array, "M N"], *, bm: int = 128, bn: int = 1024
) -> Float[Array, "M N//2"]:
    """Launch: whole rows of x are copied once, and each step writes one strip of columns."""
    M, N = x.shape
    return pl.pallas_call(
        refs_and_slices_kernel,
        grid=(M // bm, N // 2 // bn),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec((bm, N), lambda i, j: (i, 0)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N // 2), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="refs_and_slices",
    )(starts, x)


# ---- Given: inputs and helpers. ----


def refs_and_slices_inputs(key, *, M, N, bm, bn, dtype):
    """Rings that begin at any strip; those of the first block begin after their first strip."""
    x_key, first_key, key = jax.random.split(key, 3)
    blocks, strips = M // bm, N // 2 // bn
    first = jax.random.randint(first_key, (1,), 1, strips)
    others = jax.random.randint(key, (blocks - 1,), 0, strips)
    starts = jnp.concatenate([first, others]).astype(jnp.int32)
    return starts, jax.random.normal(x_key, (M, N)).astype(dtype)


def test_refs_and_slices(hidden_case):
    hidden_case.grade(refs_and_slices)
