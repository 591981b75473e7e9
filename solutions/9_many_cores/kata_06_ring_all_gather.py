"""Pass blocks around a ring of chips until every chip has all of them.

Goal
    Each of four chips holds one block of x. Write the kernel that gives every chip all
    four blocks, in order. The launch is given.

Concept
    A chip could send its block to each of the others. But links exist only between
    neighbours, so a block for the opposite chip passes through two links, and blocks of
    several chips queue on each link. In a ring, every chip always sends to its right
    neighbour, and it sends the newest block that it has:

                 chip 0     chip 1     chip 2     chip 3
        begin    0          1          2          3
        hop 0    0       3  0 1          1 2          2 3
        hop 1    0     2 3  0 1     3  0 1 2          1 2 3
        hop 2    0   1 2 3  0 1   2 3  0 1 2   3      0 1 2 3

    After n - 1 hops, every chip has every block. Each link has carried n - 1 blocks to the
    right. With blocks of 1024 x 4096 in bfloat16, that is 24 MiB, at least 503 µs on a
    v5e. The same link could carry blocks to the left at the same time, and does in
    all_gather_both_ways. If each chip sent its block to all the others directly, a block
    would pass through 1 + 2 + 1 links instead of the ring's 3.

    `o_ref` has a place for each block, and block b goes to place b on all chips. So
    nothing is overwritten, and a chip needn't know whether its neighbour has read earlier
    blocks. But it must know that a block has arrived before it sends the block on, so it
    waits for one block in each hop.

    Every hop has its own semaphores, `send_sems.at[hop]` and `recv_sems.at[hop]`. The
    left neighbour may be a hop ahead. A semaphore counts bytes, not blocks, so with one
    semaphore for all hops, a later block's bytes would end the wait for an earlier block.

    A copy's source must not change until the copy has ended. Here no source changes, so
    the kernel can wait for all sends at the end. It can't skip that wait: if a kernel
    ends with a semaphore above zero, the next kernel starts with that value.

Shapes
    name         dtype[dims]          memory space   Ref's shape       block
    x_ref        x.dtype[4, m, N]     HBM            (m, N)            whole
    o_ref        x.dtype[16, m, N]    HBM            (4, m, N)         whole
    local_sem    dma semaphore        SMEM scratch   ()                -
    send_sems    dma semaphore[3]     SMEM scratch   (3,)              -
    recv_sems    dma semaphore[3]     SMEM scratch   (3,)              -

    Ref's shape and block are per chip. The launch returns all four results, one after the
    other.

Try
    pytest -k ring_all_gather        stuck?  kata hint ring_all_gather

Needs     right_permute
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


def ring_all_gather_spec(x: Float[Array, "4 m N"]) -> Float[Array, "16 m N"]:
    """The required result, in plain jax.numpy: each chip has all of x."""
    return jnp.tile(x, (4, 1, 1))


def ring_all_gather_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    """Copy x_ref to its place in o_ref, and pass blocks on to the right."""
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    # BEGIN SOLUTION
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
    own.start()
    copies = []
    for hop in range(n - 1):
        block = lax.rem(me + n - hop, n)
        source = x_ref if hop == 0 else o_ref.at[block]
        copy = pltpu.make_async_remote_copy(
            source, o_ref.at[block], send_sems.at[hop], recv_sems.at[hop], device_id=(right,)
        )
        copy.start()
        copy.wait_recv()
        copies.append(copy)
    for copy in copies:
        copy.wait_send()
    own.wait()
    # END SOLUTION


def ring_all_gather(x: Float[Array, "4 m N"], *, mesh) -> Float[Array, "16 m N"]:
    """Launch: the kernel on each chip of the mesh, with its block of x. Given."""
    n = mesh.shape["x"]

    def on_each(x):
        _, m, N = x.shape
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            ring_all_gather_kernel,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct((n, m, N), x.dtype),
            scratch_shapes=[
                pltpu.SemaphoreType.DMA,
                pltpu.SemaphoreType.DMA((n - 1,)),
                pltpu.SemaphoreType.DMA((n - 1,)),
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="ring_all_gather",
        )(x.reshape(m, N))

    chips = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=chips, out_specs=chips, check_vma=False)(x)


def test_ring_all_gather(hidden_case):
    hidden_case.grade(ring_all_gather)
