"""Let each block of a pipeline have as many rows as its sequence.

Goal
    G sequences stand one below the other in x, and sequence g is made of rows starts[g]
    up to starts[g + 1]. In each of them, divide every column by the largest magnitude
    that it has there. Write the body of the kernel: a function for one step, and the
    call of `pltpu.emit_pipeline` with a step for each sequence. All starts are multiples
    of 16. No sequence is empty, and none is longer than `most`. The launch is given.

Concept
    In kata emit_pipeline the grid followed the data, and each block was as large as
    all others. Here a block is one whole sequence, and these have different lengths.
    With blocks of one size, there are two ways out, and both cost bytes: pad each
    sequence to the longest, or bring `most` rows from its start and ignore the rest.

        x in HBM                        slots in VMEM, `most` rows each
        starts[0] -> | aaaaaa |         slot 0             slot 1
                     | aaaaaa |         | aaaaaa |         | bbbbbb |
        starts[1] -> | bbbbbb |         | aaaaaa |         | ...... |
        starts[2] -> | cccccc |         | ...... |         | ...... |
                     | cccccc |         | ...... |         | ...... |
                     | cccccc |
        starts[3] ->

    `pl.BoundedSlice(most)` in place of a size says: this dimension of the block has no
    more than `most`. That is what a slot gets in VMEM. How much of it is used, and from
    where, the index map says in each step. It returns no index for this dimension, but a
    slice of the array, `pl.ds(start, size)`, and both numbers may come from SMEM. For the
    others, it returns an index of blocks as ever. The copy moves `size` rows, to the start
    of the slot or from there.

    Three things nobody checks for you on a TPU:

    -   *The slot keeps its shape.* In the step, x_ref has `most` rows, and what stands
        below the sequence (the dots) is left from an earlier one, or from nobody.
    -   *Tiles.* A slice in HBM begins and ends between tiles. The compiler has to know
        that a number from SMEM does, and `pl.multiple_of(start, 16)` promises it.
    -   *Results may overlap.* Slices can be anything. If two steps write to the same row,
        their copies are under way at the same time, and either may be the last.

    64 sequences of 16 to 512 rows and 2048 columns in bfloat16 take 175 µs of a v5e, and
    move 128 MiB. Padded to 512 rows each, they are 256 MiB, which take 328 µs.

Shapes
    name        dtype[dims]      memory space   Ref's shape   block
    starts      int32[S]         SMEM           (S,)          whole
    x_hbm       x.dtype[T, D]    HBM            (T, D)        whole
    o_hbm       x.dtype[T, D]    HBM            (T, D)        whole

    S = G + 1. Blocks of the pipeline are up to `most` rows, and all D columns.

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
    """What the kernel must compute, in plain jax.numpy."""
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
    """Sequences of 16 to `most` rows, in any order, each of a scale of its own."""
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
