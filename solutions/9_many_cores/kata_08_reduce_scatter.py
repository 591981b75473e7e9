"""Add partial sums around a ring of chips, and tell the neighbour when a slot is free.

Goal
    Each of four chips holds partial sums of the same matrix. Write the kernel that adds
    them, so that each chip holds a quarter of the rows of the total. The launch is given.

Concept
    A matrix product leaves such partial sums if its contracted axis is sharded. No chip
    needs the whole total, so each quarter travels once around the ring, and every chip
    that it passes adds its own part. Chip q + 1 starts quarter q, which arrives complete
    at chip q:

                 chip 0     chip 1     chip 2     chip 3
        hop 0    sends 3    sends 0    sends 1    sends 2       a chip's own part
        hop 1    sends 2    sends 3    sends 0    sends 1       what came, plus its own
        hop 2    sends 1    sends 2    sends 3    sends 0       of two, plus its own
        end      keeps 0    keeps 1    keeps 2    keeps 3       of three, plus its own

    An incoming quarter needs a slot until it is added. Two slots are enough: hop 2 may
    use hop 0's slot again. But the left neighbour writes into my slot, and it can be
    ahead of me. It knows that its copy has left, and even that I have received it. It
    doesn't know whether I have read it:

        left     hop 0 -> slot 0     hop 1 -> slot 1     hop 2 -> slot 0
        me          slot 0 came                     reading slot 0     ^ overwritten

    So I have to tell it. When I have read a slot that will be used again, I signal
    `free_sem` on the left neighbour, which waits for the signal before it sends to that
    slot. Such a signal is called a credit. Credits and waits must match: an unused
    credit leaves the semaphore above 0, and a missing credit makes all chips wait
    forever.

    Each link carries n - 1 quarters to the right. For a total of 4096 x 4096 in float32,
    that is 48 MiB. If each chip gathered the sums of all chips and added them itself, it
    would be 192 MiB. (A second ring to the left could carry half of each quarter.)

Shapes
    name         dtype[dims]          memory space   Ref's shape     block
    x_ref        x.dtype[4, M, N]     HBM            (4, M/4, N)     whole
    o_ref        x.dtype[M, N]        VMEM           (M/4, N)        whole
    sent_ref     x.dtype[M/4, N]      VMEM scratch   (M/4, N)        -
    came_ref     x.dtype[2, M/4, N]   VMEM scratch   (2, M/4, N)     -
    own_ref      x.dtype[M/4, N]      VMEM scratch   (M/4, N)        -
    send_sems    dma semaphore[2]     SMEM scratch   (2,)            -
    recv_sems    dma semaphore[2]     SMEM scratch   (2,)            -
    free_sem     semaphore            SMEM scratch   ()              -

    Ref's shape and block are per chip: x_ref[q] is this chip's part of quarter q.

Try
    pytest -k reduce_scatter         stuck?  kata hint reduce_scatter

Needs     ring_all_gather
Read on   Distributed Computing in Pallas for TPUs,
          https://docs.jax.dev/en/latest/pallas/tpu/distributed.html
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def reduce_scatter_spec(x: Float[Array, "4 M N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.sum(x, axis=0)


def reduce_scatter_kernel(
    x_ref, o_ref, sent_ref, came_ref, own_ref, send_sems, recv_sems, free_sem
):
    """Add up the quarter of the rows that has my number, around the ring."""
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    # BEGIN SOLUTION
    pltpu.sync_copy(x_ref.at[left], sent_ref)
    for hop in range(n - 1):
        slot = hop % 2
        if hop >= 2:
            pl.semaphore_wait(free_sem)
        copy = pltpu.make_async_remote_copy(
            sent_ref, came_ref.at[slot], send_sems.at[slot], recv_sems.at[slot], device_id=(right,)
        )
        copy.start()
        pltpu.sync_copy(x_ref.at[lax.rem(left + n - 1 - hop, n)], own_ref)
        copy.wait()
        sent_ref[...] = came_ref[slot] + own_ref[...]
        if hop + 2 < n - 1:
            pl.semaphore_signal(free_sem, device_id=(left,))
    o_ref[...] = sent_ref[...]
    # END SOLUTION


def reduce_scatter(x: Float[Array, "4 M N"], *, mesh) -> Float[Array, "M N"]:
    """Launch: the kernel on each chip of the mesh, with its partial sums. Given."""
    n = mesh.shape["x"]

    def on_each(x):
        _, M, N = x.shape
        quarter = (M // n, N)
        return pl.pallas_call(
            reduce_scatter_kernel,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
            out_shape=jax.ShapeDtypeStruct(quarter, x.dtype),
            scratch_shapes=[
                pltpu.VMEM(quarter, x.dtype),
                pltpu.VMEM((2, *quarter), x.dtype),
                pltpu.VMEM(quarter, x.dtype),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.REGULAR,
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="reduce_scatter",
        )(x.reshape(n, *quarter))

    chips = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=chips, out_specs=chips, check_vma=False)(x)


def test_reduce_scatter(hidden_case):
    hidden_case.grade(reduce_scatter)
