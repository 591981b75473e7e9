"""Gather blocks over both directions of the links, so that each carries half as much.

Goal
    Each of four chips holds one block of x. Write the kernel that gives every chip all
    four blocks, block b at o_ref[b], and sends in both directions, so that no link carries
    more than one and a half blocks. It begins with a barrier with both neighbours. The
    launch is given.

Concept
    A link carries data in both directions at the same time, each at its full bandwidth.
    ring_all_gather sends to the right only: three blocks one after the other, while
    nothing goes to the left.

    Three blocks have to reach each chip, over two incoming links, so no all-gather is
    faster than one and a half blocks per link. Blocks of the neighbours need one hop. The
    block of the opposite chip needs two, and both ways are equally long. So half of it
    comes from the left and half from the right. Here are the links into chip 0, with two
    letters for the halves of each block; Cc is chip 2's:

                 chip 3               chip 0               chip 1
        hop 0             -- Dd -->             <-- Bb --
        hop 1             -- C  -->             <--  c --

    Blocks of 1024 x 4096 in bfloat16 have 8 MiB. A link of a v5e moves 50 GB/s in each
    direction:

                                            busiest link     at least
        all blocks to the right             3 blocks         503 µs
        opposite block whole, one way       2 blocks         336 µs
        opposite block in halves            1.5 blocks       252 µs

    All three send the same number of bytes. But a link that has no data to carry doesn't
    help the others, so the busiest link decides.

    A half that you pass on must have arrived, and copies in different directions arrive
    in any order. So each hop and each direction has its own semaphores:
    `send_sems.at[hop, 0]` for copies to the right, `send_sems.at[hop, 1]` for those to the
    left. Start both copies of your block before you wait for one.

Shapes
    name         dtype[dims]          memory space   Ref's shape   block
    x_ref        x.dtype[4, m, N]     HBM            (m, N)        whole
    o_ref        x.dtype[16, m, N]    HBM            (4, m, N)     whole
    local_sem    dma semaphore        SMEM scratch   ()            -
    send_sems    dma semaphore[2, 2]  SMEM scratch   (2, 2)        -
    recv_sems    dma semaphore[2, 2]  SMEM scratch   (2, 2)        -

    Ref's shape and block are per chip. m is even.

Try
    pytest -k all_gather_both_ways   stuck?  kata hint all_gather_both_ways

Needs     ring_all_gather
Read on   How to Scale Your Model, https://jax-ml.github.io/scaling-book/sharding/
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def all_gather_both_ways_spec(x: Float[Array, "4 m N"]) -> Float[Array, "16 m N"]:
    """The required result, in plain jax.numpy: each chip has all of x."""
    return jnp.tile(x, (4, 1, 1))


def all_gather_both_ways_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    """Copy x_ref to its place in o_ref, send it both ways, and pass on half of what comes."""
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    half = x_ref.shape[0] // 2
    # BEGIN SOLUTION
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
    own.start()

    def send(source, target, hop, way):
        copy = pltpu.make_async_remote_copy(
            source,
            target,
            send_sems.at[hop, way],
            recv_sems.at[hop, way],
            device_id=((right, left)[way],),
        )
        copy.start()
        return copy

    copies = [send(x_ref, o_ref.at[me], 0, way) for way in (0, 1)]
    for way, block in enumerate((left, right)):
        copies[way].wait_recv()
        part = o_ref.at[block, pl.ds(way * half, half)]
        copies.append(send(part, part, 1, way))
    for copy in copies[2:]:
        copy.wait_recv()
    for copy in copies:
        copy.wait_send()
    own.wait()
    # END SOLUTION


def all_gather_both_ways(x: Float[Array, "4 m N"], *, mesh) -> Float[Array, "16 m N"]:
    """Launch: the kernel on each chip of the mesh, with its block of x. Given."""
    n = mesh.shape["x"]

    def on_each(x):
        _, m, N = x.shape
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            all_gather_both_ways_kernel,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct((n, m, N), x.dtype),
            scratch_shapes=[
                pltpu.SemaphoreType.DMA,
                pltpu.SemaphoreType.DMA((2, 2)),
                pltpu.SemaphoreType.DMA((2, 2)),
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="all_gather_both_ways",
        )(x.reshape(m, N))

    chips = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=chips, out_specs=chips, check_vma=False)(x)


def test_all_gather_both_ways(hidden_case):
    hidden_case.grade(all_gather_both_ways)
