"""Share an array among the blocks of a grid, and the warpgroups of a block.

Goal
    Write the kernel that computes SiLU, x * sigmoid(x), of an array in a GPU's memory.
    Each warpgroup does bn elements of its own, and together they do all, each
    once. The launch, with its grid and its warpgroups, is given.

Concept
    A GPU is a hundred or so processors, called SMs: an H100 has 132. Each holds many
    threads at a time, and they wait for memory in turns, so that while some wait,
    others compute. To keep an H100's memory busy, tens of KiB have to be
    on their way to each SM at all times.

    A launch is a *grid* of *blocks*. A block runs on one SM, start to end, and no
    block knows when the others run. In a block are *warpgroups*: 128 threads that
    go through the kernel together. In Mosaic GPU you write the program of a
    warpgroup, and its values are whole arrays, spread over the registers of the
    128. Pallas calls a warpgroup a thread:

        grid       | block 0       | block 1       | block 2       | ...
        warpgroup  |   0   |   1   |   0   |   1   |   0   |   1   |
        x          | bn    | bn    | bn    | bn    | bn    | bn    |
                   |       |
                 thread 0 .. 127     each has bn / 128 elements in registers

    Nothing cuts x into blocks for you, as a BlockSpec does on a TPU: a kernel gets
    Refs of the whole arrays, in global memory. `lax.axis_index("block")` says which
    block this is, `lax.axis_index("wg")` which of its warpgroups, and
    `lax.axis_size` how many there are of either. To index a Ref with
    `pl.ds(start, size)` is to load that part to registers, or to store it.

    All run at the same time. If two warpgroups write the same element, nobody knows
    whose value stays, even if both are right today. That is a race.

    For 16 Mi elements in float32, 128 MiB have to move: 40 µs of an H100, if all of
    its SMs take part.

Shapes
    name     dtype[dims]   memory space   Ref's shape   block
    x_gmem   x.dtype[N]    GMEM           (N,)          yours
    o_gmem   x.dtype[N]    GMEM           (N,)          yours

    N is a multiple of bn times the number of warpgroups in a block.

Try
    pytest -k threads_and_grids          stuck?  kata hint threads_and_grids

Needs     constant_add, ragged_tail
Read on   Pallas:Mosaic GPU, https://docs.jax.dev/en/latest/pallas/gpu/reference.html
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def threads_and_grids_spec(x: Float[Array, "N"]) -> Float[Array, "N"]:
    """The required result, in plain jax.numpy."""
    return x * jax.nn.sigmoid(x)


def threads_and_grids_kernel(x_gmem, o_gmem, *, bn):
    """What one warpgroup does: its bn elements."""
    # BEGIN SOLUTION
    number = lax.axis_index("block") * lax.axis_size("wg") + lax.axis_index("wg")
    mine = pl.ds(number * bn, bn)
    x = x_gmem[mine].astype(jnp.float32)
    o_gmem[mine] = (x / (1 + jnp.exp(-x))).astype(o_gmem.dtype)
    # END SOLUTION


def threads_and_grids(x: Float[Array, "N"], *, bn=512, warpgroups=2) -> Float[Array, "N"]:
    """Launch: as many blocks as x has pieces for all warpgroups of a block. Given."""
    return plgpu.kernel(
        functools.partial(threads_and_grids_kernel, bn=bn),
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // (bn * warpgroups),),
        grid_names=("block",),
        num_threads=warpgroups,
        thread_name="wg",
    )(x)


def test_threads_and_grids(hidden_case):
    hidden_case.grade(threads_and_grids)
