"""Launch a tiled matmul: grid, blocks, scratch and dimension semantics.

Goal
    The kernel of tiled_matmul is given. Write everything around it: the whole
    `pl.pallas_call`, for blocks of bm x bk, bk x bn and bm x bn. A right answer may
    still lack the third star: then `kata cost launch_matmul` says what to try.

Concept
    In launch_vector_add you answered the six questions of a launch. A kernel with
    scratch adds a seventh, and one of the six has a harder answer now.

    *What other memory does the body need?* The list scratch_shapes describes
    it: `pltpu.VMEM((8, 128), jnp.int32)`, for example, is an array of 8 x 128
    integers. The body receives one more Ref for each entry. Scratch is not a
    block of any array, so it has no BlockSpec: its shape is the Ref's shape.

    *Which steps depend on each other?* You say this with one word for each grid
    axis, in compiler_params=pltpu.CompilerParams(dimension_semantics=(...)):

        "parallel"    a step needs nothing from the other steps along this axis;
                      they may run in any order, or on two cores at a time
        "arbitrary"   a step needs what the previous step left: keep the order

    The v4 and v5p chips have two cores, which share the steps of a "parallel"
    axis. By default every axis is "arbitrary", and half of such a chip is idle.
    If you say "parallel" where it isn't true, the result is right on a v5e, which has
    one core, but wrong on two, which the interpreter that grades you has.

    Block sizes matter too. A step multiplies bm x bk by bk x bn. That takes
    2 bm bn bk flops, and reads (bm + bn) bk numbers of 2 bytes from HBM. A v5e does
    197 Tflop/s and reads 819 GB/s, so the matrix unit has to wait for data if a
    step does fewer than 240 flops for each byte:

        bm x bn        flops per byte      matrix unit busy, at best
        128 x 128             64           27 %
        256 x 256            128           53 %
        512 x 512            256          100 %

    Short steps also can't hide what starting a copy takes. For 4096 x 4096 x 4096,
    11.6 ms are predicted in blocks of 128, and 0.9 ms in blocks of 512.

    But the blocks must fit in VMEM. With 512 for all three sizes, bfloat16 takes

        x: 2 * 0.5 MiB    y: 2 * 0.5 MiB    o: 2 * 0.5 MiB    acc: 1 MiB

    That is 4 of the 16 MiB that a kernel gets by default. A block has two buffers.

Shapes
    name      dtype[dims]       memory space   Ref's shape   block
    x_ref     x.dtype[M, K]     VMEM           (bm, bk)      yours
    y_ref     x.dtype[K, N]     VMEM           (bk, bn)      yours
    o_ref     x.dtype[M, N]     VMEM           (bm, bn)      yours
    acc_ref   float32[bm, bn]   VMEM scratch   (bm, bn)      -

Try
    pytest -k launch_matmul         stuck?  kata hint launch_matmul

Needs     tiled_matmul, launch_vector_add
Read on   Anatomy of High-Performance Matrix Multiplication, https://doi.org/10.1145/1356052.1356053
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def launch_matmul_spec(x: Float[Array, "M K"], y: Float[Array, "K N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x @ y


def launch_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def launch_matmul(
    x: Float[Array, "M K"], y: Float[Array, "K N"], *, bm: int = 512, bn: int = 512, bk: int = 512
) -> Float[Array, "M N"]:
    """Launch: you write all of it. The block sizes divide the dimensions."""
    M, K = x.shape
    _, N = y.shape
    # BEGIN SOLUTION
    return pl.pallas_call(
        launch_matmul_kernel,
        grid=(N // bn, M // bm, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda j, i, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda j, i, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda j, i, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="launch_matmul",
    )(x, y)
    # END SOLUTION


def test_launch_matmul(hidden_case):
    hidden_case.grade(launch_matmul)
