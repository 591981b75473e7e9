"""Give each block of a pipeline as many rows as its sequence has.

Goal
    x holds G sequences one after another: sequence g is rows starts[g] up to starts[g + 1].
    Divide every column of a sequence by the column's largest magnitude in that sequence.
    Write the body of the kernel: a function for one step, and the call of
    `pltpu.emit_pipeline` with a step for each sequence. All starts are multiples of 16. No
    sequence is empty, and none is longer than `most`. The launch is given.

Concept
    In kata emit_pipeline the grid depended on the data, and all blocks had the same size.
    Here a block is one whole sequence, and the lengths differ. With blocks of one size, you
    could pad each sequence to the longest, or copy `most` rows from its start and ignore the
    rest. Both cost bytes.

        x in HBM                        slots in VMEM, `most` rows each
        starts[0] -> | aaaaaa |         slot 0             slot 1
                     | aaaaaa |         | aaaaaa |         | bbbbbb |
        starts[1] -> | bbbbbb |         | aaaaaa |         | ...... |
        starts[2] -> | cccccc |         | ...... |         | ...... |
                     | cccccc |         | ...... |         | ...... |
                     | cccccc |
        starts[3] ->

    `pl.BoundedSlice(most)` instead of a size means: this dimension of the block has at most
    `most` elements. A slot in VMEM has that size. In each step, the index map chooses the
    part of the array that is copied. For this dimension it returns not an index but a slice
    of the array, `pl.ds(start, size)`, and both numbers may come from SMEM. For the other
    dimensions, it returns block indices as usual. The copy moves `size` rows, to or from the
    start of the slot.

    A TPU checks none of these three:

    -   *The slot keeps its shape.* In the step, x_ref has `most` rows, and the rows
        below the sequence (the dots) hold an earlier one, or garbage.
    -   *Tiles.* A slice of several tiles begins and ends at tile boundaries. For a start
        from SMEM, `pl.multiple_of(start, 16)` promises this to the compiler.
    -   *Results may overlap.* Slices are arbitrary. If two steps write to the same row,
        their copies are in flight at the same time, and either may be the last.

    64 sequences of 16 to 512 rows and 2048 columns in bfloat16 take 173 µs on a v5e, and move
    128 MiB. Padded to 512 rows each, they are 256 MiB and take 328 µs.

Shapes
    name        dtype[dims]      memory space   Ref's shape   block
    starts      int32[S]         SMEM           (S,)          whole
    x_hbm       x.dtype[T, D]    HBM            (T, D)        whole
    o_hbm       x.dtype[T, D]    HBM            (T, D)        whole

    S = G + 1. Blocks of the pipeline have up to `most` rows, and all D columns.

Try
    pytest -k dynamic_blocks         stuck?  kata hint dynamic_blocks

Needs     emit_pipeline, ragged_sequence
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def dynamic_blocks_spec(starts: Int32[Array, "S"], x: Float[Array, "T D"]) -> Float[Array, "T D"]:
    """The required result, in plain jax.numpy."""
    G = len(starts) - 1
    sequence = jnp.searchsorted(starts, jnp.arange(len(x)), side="right") - 1
    top = jax.ops.segment_max(jnp.abs(x), sequence, num_segments=G)
    return x / top[sequence]


def dynamic_blocks_kernel(starts, x_hbm, o_hbm, *, most):
    G, D = starts.shape[0] - 1, x_hbm.shape[1]
    # BEGIN SOLUTION

    def rows(g):
        return pl.ds(pl.multiple_of(starts[g], 16), starts[g + 1] - starts[g]), 0

    def step(x_ref, o_ref):
        g = pl.program_id(0)
        x = x_ref[...].astype(jnp.float32)
        used = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) < starts[g + 1] - starts[g]
        top = jnp.max(jnp.where(used, jnp.abs(x), 0), axis=0, keepdims=True)
        o_ref[...] = (x / top).astype(o_ref.dtype)

    block = pl.BlockSpec((pl.BoundedSlice(most), D), rows)
    pltpu.emit_pipeline(step, grid=(G,), in_specs=[block], out_specs=[block])(x_hbm, o_hbm)
    # END SOLUTION


def dynamic_blocks(
    starts: Int32[Array, "S"], x: Float[Array, "T D"], *, most: int = 512
) -> Float[Array, "T D"]:
    """Launch: the body runs once; starts in SMEM, everything else in HBM."""
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        functools.partial(dynamic_blocks_kernel, most=most),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        name="dynamic_blocks",
    )(starts, x)


# ---- Given: inputs and helpers. ----


def dynamic_blocks_inputs(key, *, G, D, most, dtype):
    """Sequences of 16 to `most` rows, in any order, each with its own scale."""
    order, of_x, of_scale = jax.random.split(key, 3)
    lens = [16 + 16 * ((most // 16 - 1) * g // (G - 1)) for g in range(G)]
    T = sum(lens)
    lens = jax.random.permutation(order, jnp.array(lens))
    starts = jnp.pad(jnp.cumsum(lens), (1, 0)).astype(jnp.int32)
    scale = jnp.repeat(
        jax.random.uniform(of_scale, (G, 1), minval=0.5, maxval=8.0), lens, 0, total_repeat_length=T
    )
    return starts, (scale * jax.random.normal(of_x, (T, D))).astype(dtype)


def test_dynamic_blocks(hidden_case):
    hidden_case.grade(dynamic_blocks)
