"""Multiply the next quarter while the sum of the last one travels.

Goal
    Each of four chips holds a quarter of the columns of x and the same quarter of the
    rows of w. Write the kernel that computes x @ w and leaves each chip a quarter of its
    rows. The launch and the barrier are given.

Concept
    The second matrix product of an MLP has this form if its hidden layer is sharded.
    Each chip's product is only a partial sum, of all rows. reduce_scatter can add the
    partial sums once all of them exist, but until then the links are idle. Yet a hop needs
    only one quarter of the rows, and the chip can multiply the next while one travels:

        products   # # #  # # #  # # #  # # #
        links                                  x x x  x x x  x x x

        products   # # #  # # #  # # #  # # #
        links             x x x  x x x  x x x
        quarter    left's opposite right's own

    So a chip first multiplies the quarter that it sends first. In each hop, it multiplies
    the quarter that is about to arrive, and then adds the two. all_gather_matmul is the
    reverse: its products come after the hops, these come before them. The order of the
    quarters, the two slots and the credits are those of reduce_scatter.

    Sums travel in float32, even if x is in bfloat16: otherwise, each hop would round them.

    Does a product hide a hop? A hop brings 4 bytes for each element of a quarter, and the
    chip adds K / 4 products for it. So only the number of columns per chip matters. One
    link of a v5e moves 50 GB/s in each direction, and the matrix unit computes 197 Tflop/s
    in bfloat16: from 7880 columns on, a hop takes less time than the product that hides
    it. For M = 8192, N = 2048, and 8192 columns of x per chip:

        a hop over the link                 16 MiB                  0.34 ms
        a product                           69 Gflop                0.35 ms
        4 products, and then 3 hops                                 2.40 ms
        a product, then 3 that hide 3 hops                          1.40 ms

    The kata's arrays fit into VMEM. At these sizes, a pipeline would read them from HBM.

Shapes
    name         dtype[dims]          memory space   Ref's shape        block
    x_ref        x.dtype[M, K]        VMEM           (4, M/4, K/4)      whole
    w_ref        x.dtype[K, N]        VMEM           (K/4, N)           whole
    o_ref        x.dtype[M, N]        VMEM           (M/4, N)           whole
    sent_ref     float32[M/4, N]      VMEM scratch   (M/4, N)           -
    came_ref     float32[2, M/4, N]   VMEM scratch   (2, M/4, N)        -
    own_ref      float32[M/4, N]      VMEM scratch   (M/4, N)           -
    send_sems    dma semaphore[2]     SMEM scratch   (2,)               -
    recv_sems    dma semaphore[2]     SMEM scratch   (2,)               -
    free_sem     semaphore            SMEM scratch   ()                 -

    Ref's shape and block are per chip: x_ref[q] are the rows of quarter q.

Try
    pytest -k reduce_scatter_matmul  stuck?  kata hint reduce_scatter_matmul

Needs     reduce_scatter, all_gather_matmul
Read on   Overlap Communication with Dependent Computation, Wang et al., 2023,
          https://dl.acm.org/doi/10.1145/3567955.3567959
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def reduce_scatter_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "K N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x @ w


def reduce_scatter_matmul_kernel(
    x_ref, w_ref, o_ref, sent_ref, came_ref, own_ref, send_sems, recv_sems, free_sem
):
    """Multiply quarters of my columns, and add them up around the ring meanwhile."""
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    # BEGIN SOLUTION

    def product(quarter):
        return jnp.dot(x_ref[quarter], w_ref[...], preferred_element_type=jnp.float32)

    sent_ref[...] = product(left)
    for hop in range(n - 1):
        slot = hop % 2
        if hop >= 2:
            pl.semaphore_wait(free_sem)
        copy = pltpu.make_async_remote_copy(
            sent_ref, came_ref.at[slot], send_sems.at[slot], recv_sems.at[slot], device_id=(right,)
        )
        copy.start()
        own_ref[...] = product(lax.rem(left + n - 1 - hop, n))
        copy.wait()
        sent_ref[...] = came_ref[slot] + own_ref[...]
        if hop + 2 < n - 1:
            pl.semaphore_signal(free_sem, device_id=(left,))
    o_ref[...] = sent_ref[...].astype(o_ref.dtype)
    # END SOLUTION


def reduce_scatter_matmul(
    x: Float[Array, "M K"], w: Float[Array, "K N"], *, mesh
) -> Float[Array, "M N"]:
    """Launch: the kernel on each chip, with its columns of x and its rows of w. Given."""
    n = mesh.shape["x"]

    def on_each(x, w):
        M, K = x.shape
        quarter = (M // n, w.shape[1])
        vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
        return pl.pallas_call(
            reduce_scatter_matmul_kernel,
            in_specs=[vmem, vmem],
            out_specs=vmem,
            out_shape=jax.ShapeDtypeStruct(quarter, x.dtype),
            scratch_shapes=[
                pltpu.VMEM(quarter, jnp.float32),
                pltpu.VMEM((2, *quarter), jnp.float32),
                pltpu.VMEM(quarter, jnp.float32),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.REGULAR,
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="reduce_scatter_matmul",
        )(x.reshape(n, M // n, K), w)

    return jax.shard_map(
        on_each,
        mesh=mesh,
        in_specs=(P(None, "x"), P("x")),
        out_specs=P("x"),
        check_vma=False,
    )(x, w)


def test_reduce_scatter_matmul(hidden_case):
    hidden_case.grade(reduce_scatter_matmul)
