"""Keep copies in flight in both directions: a ring of slots on an SM.

Goal
    Write the loop of a kernel that computes relu(x) ** 2. Each block computes `steps`
    boxes of bm rows, one after the other. It has a ring of `slots` slots for incoming
    boxes, and another for outgoing ones. While one box is computed, the next slots - 1
    are on their way in, and earlier results on their way out. The launch is given.

Concept
    Memory answers after about a microsecond. In that time, an H100 could move 3 MiB,
    25 KiB for each of its SMs. So that much must be in flight at all times, or memory
    is idle. With one box at a time, memory is idle while the SM computes, and the SM is
    idle while a box is loaded. With a ring, both stay busy, here with 3 slots:

        step          0        1        2        3        4
        coming in     1, 2     2, 3     3, 4     4, 5     5, 6
        computed      0        1        2        3        4
        going out              0        0, 1     1, 2     2, 3
        slot          0        1        2        0        1

    Each slot has its own barrier for incoming boxes. A barrier doesn't count steps. It
    only knows whether it has completed since this warpgroup's last wait, so wait once
    for each completion.

    A slot is used again `slots` steps later, which needs care in two places:

    - x_smem: start to load a box only after the slot's old box has been read. In step
      k, the old box is k - 1, read a step ago.
    - o_smem: store only after the old copy out has read the slot. Copies out are
      finished in the order in which they were started, so it is enough to count:
      `wait_smem_to_gmem(n, wait_read_only=True)` waits until at most n of them haven't
      read their slot yet. It doesn't wait until they have been written to GMEM.

    At the end, wait for all copies out that are still in flight.

    The grid has one block for each SM. No second block on the SM can work while this
    one waits, so the ring has to hide all of the latency.

Shapes
    name     dtype[dims]              memory space   Ref's shape      block
    x_gmem   x.dtype[M, N]            GMEM           (M, N)           yours
    o_gmem   x.dtype[M, N]            GMEM           (M, N)           yours
    x_smem   x.dtype[slots, bm, N]    SMEM scratch   (slots, bm, N)   -
    o_smem   x.dtype[slots, bm, N]    SMEM scratch   (slots, bm, N)   -
    here     barrier[slots]           SMEM scratch   (slots,)         -

    M is bm times steps times the number of blocks; steps is at least slots.

Try
    pytest -k pipelined_copy          stuck?  kata hint pipelined_copy

Needs     tma_copy, double_buffer
Read on   Pallas:Mosaic GPU, https://docs.jax.dev/en/latest/pallas/gpu/reference.html
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def pipelined_copy_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.square(jnp.maximum(x, 0))


def pipelined_copy_kernel(x_gmem, o_gmem, x_smem, o_smem, here, *, steps):
    """Compute `steps` boxes of rows, one after the other."""
    slots, bm, _ = x_smem.shape

    def rows(i):
        return pl.ds((lax.axis_index("block") * steps + i) * bm, bm)

    # BEGIN SOLUTION
    raise NotImplementedError(
        "load boxes slots - 1 steps ahead, compute, copy out, and free each slot before it is used again"
    )
    # END SOLUTION


def pipelined_copy(x: Float[Array, "M N"], *, bm=64, blocks=132, slots=2) -> Float[Array, "M N"]:
    """Launch: as many blocks as run at a time, each with its own slots. Given."""
    (M, N), ring = x.shape, plgpu.SMEM((slots, bm, x.shape[1]), x.dtype)
    return plgpu.kernel(
        functools.partial(pipelined_copy_kernel, steps=M // (bm * blocks)),
        out_type=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_types=(ring, ring, plgpu.Barrier(num_barriers=slots)),
        grid=(blocks,),
        grid_names=("block",),
    )(x)


def test_pipelined_copy(hidden_case):
    hidden_case.grade(pipelined_copy)
