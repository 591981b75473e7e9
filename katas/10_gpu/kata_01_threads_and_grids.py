"""Divide an array among the blocks of a grid, and the warpgroups of a block.

Goal
    Write the kernel that computes SiLU, x * sigmoid(x), of an array in a GPU's memory.
    Each warpgroup computes its own bn elements, so that together they compute every
    element once. The launch, with its grid and its warpgroups, is given.

Concept
    A GPU has a hundred or so processors, called SMs; an H100 has 132. Each SM holds
    many threads. While some of them wait for memory, others compute. To keep an H100's
    memory busy, tens of KiB must be on their way to each SM at all times.

    A launch is a *grid* of *blocks*. A block runs on one SM from start to end, and
    doesn't know when the other blocks run. A block consists of *warpgroups*: 128
    threads that go through the kernel together. In Mosaic GPU you write the program of
    one warpgroup. Its values are whole arrays, spread over the registers of the 128
    threads. Pallas' "threads" are warpgroups:

        grid       | block 0       | block 1       | block 2       | ...
        warpgroup  |   0   |   1   |   0   |   1   |   0   |   1   |
        x          | bn    | bn    | bn    | bn    | bn    | bn    |
                   |       |
                 thread 0 .. 127     each has bn / 128 elements in registers

    On a TPU, a BlockSpec cuts x into blocks for you. Here a kernel gets Refs of the
    whole arrays, in global memory. `lax.axis_index("block")` returns the block's number,
    `lax.axis_index("wg")` the warpgroup's number within its block, and `lax.axis_size`
    how many there are. Indexing a Ref with `pl.ds(start, size)` loads that part to
    registers, or stores to it.

    All warpgroups run at the same time. If two of them write the same element, either
    value may remain. That is a race, even if both values are right today.

    For 16 Mi elements in float32, 128 MiB have to move: 40 µs on an H100, if all of
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
    """Compute the bn elements of one warpgroup."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "load the bn elements of this warpgroup, compute SiLU in float32, store it"
    )
    # END SOLUTION


def threads_and_grids(x: Float[Array, "N"], *, bn=512, warpgroups=2) -> Float[Array, "N"]:
    """Launch: one block for every bn * warpgroups elements of x. Given."""
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
