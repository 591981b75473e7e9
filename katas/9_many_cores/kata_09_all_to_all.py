"""Exchange blocks between all chips at once: an all-to-all.

Goal
    Each of four chips holds four blocks, one for each chip. Write the kernel that sends
    every block to its destination. The launch is given.

Concept
    Block [s, d] of x is on chip s, and its destination is chip d. Afterwards chip d holds
    the blocks [0, d], [1, d], [2, d], [3, d], in this order. All chips together
    transpose a table of blocks:

                 x, as it is                         o, as it should be
        chip 0   [0,0] [0,1] [0,2] [0,3]             [0,0] [1,0] [2,0] [3,0]
        chip 1   [1,0] [1,1] [1,2] [1,3]             [0,1] [1,1] [2,1] [3,1]
        chip 2   [2,0] [2,1] [2,2] [2,3]             [0,2] [1,2] [2,2] [3,2]
        chip 3   [3,0] [3,1] [3,2] [3,3]             [0,3] [1,3] [2,3] [3,3]

    A mixture-of-experts layer does this twice: tokens go to the chips of their experts,
    and results come back.

    No chip passes blocks on, so this isn't a ring of hops. Each chip starts n - 1 copies
    at once and waits for all. In copy number k it sends to the chip k places to its
    right, while the chip k places to its left sends to it. Both ends have the same k, and
    so the same semaphore: `recv_sems.at[k - 1]` counts the data from k places to the
    left. If all chips began with chip 0 instead, its links would be crowded while others
    were idle.

    The barrier has to reach further than in a ring: I write to every chip, so I have to
    know that all of them have started, not only my neighbours.

    One block stays on its chip: [s, s] is copied from HBM to HBM. Of 64 MiB on each chip,
    48 leave it. In a ring of four, the block for the opposite chip passes through two
    links, so a chip's blocks put 16 + 32 + 16 MiB on the links.

Shapes
    name         dtype[dims]          memory space   Ref's shape     block
    x_ref        x.dtype[4, 4, m, N]  HBM            (4, m, N)       whole
    o_ref        x.dtype[4, 4, m, N]  HBM            (4, m, N)       whole
    local_sem    dma semaphore        SMEM scratch   ()              -
    send_sems    dma semaphore[3]     SMEM scratch   (3,)            -
    recv_sems    dma semaphore[3]     SMEM scratch   (3,)            -

    Ref's shape and block are per chip: block d of x_ref is for chip d, and block s of
    o_ref is from chip s.

Try
    pytest -k all_to_all             stuck?  kata hint all_to_all

Needs     right_permute
Read on   How to Scale Your Model, https://jax-ml.github.io/scaling-book/sharding/
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def all_to_all_spec(x: Float[Array, "4 4 m N"]) -> Float[Array, "4 4 m N"]:
    """The required result, in plain jax.numpy."""
    return jnp.swapaxes(x, 0, 1)


def all_to_all_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    """Send block d of x_ref to chip d, which stores it in o_ref under my number."""
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    # BEGIN SOLUTION
    raise NotImplementedError(
        "after a barrier of all chips, send block d of x_ref to chip d for each d, and wait for all copies"
    )
    # END SOLUTION


def all_to_all(x: Float[Array, "4 4 m N"], *, mesh) -> Float[Array, "4 4 m N"]:
    """Launch: the kernel on each chip of the mesh, with its blocks of x. Given."""
    n = mesh.shape["x"]

    def on_each(x):
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        blocks = pl.pallas_call(
            all_to_all_kernel,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct(x.shape[1:], x.dtype),
            scratch_shapes=[
                pltpu.SemaphoreType.DMA,
                pltpu.SemaphoreType.DMA((n - 1,)),
                pltpu.SemaphoreType.DMA((n - 1,)),
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="all_to_all",
        )(x.reshape(x.shape[1:]))
        return blocks.reshape(x.shape)

    chips = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=chips, out_specs=chips, check_vma=False)(x)


def test_all_to_all(hidden_case):
    hidden_case.grade(all_to_all)
