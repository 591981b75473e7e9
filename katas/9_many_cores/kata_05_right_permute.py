"""Send an array to the chip on the right, from inside a kernel.

Goal
    Four chips form a ring, and each holds a quarter of the rows of x. Write the
    kernel that runs on all of them and sends its quarter to the chip on its right.
    The last chip sends to the first. The launch is given.

Concept
    `jax.shard_map` runs the same kernel on every chip, each with its own part of x.
    `lax.axis_index("x")` returns this chip's number, and `lax.axis_size("x")` the number
    of chips. Links connect neighbouring chips, and a kernel can copy straight into
    another chip's memory, just as it copies between HBM and VMEM:

        copy = pltpu.make_async_remote_copy(source, target, send_sem, recv_sem,
                                            device_id=(number,))

    `source` is a Ref on my chip. `target` names a Ref of the kernel, and means its buffer
    on the other chip: all chips run the same kernel. The copy has two semaphores, one on
    each of the two chips:

        chip 0           chip 1           chip 2           chip 3
        x_ref -- link -> o_ref
          |                |
        send_sem         recv_sem         ... and so on, the last to the first

    On the sender, `send_sem` counts the data that has been read, after which `source` may
    change. On the receiver, `recv_sem` counts the data that has arrived. Every chip sends
    and receives, so `copy.wait()` waits for both: until my rows have left, and until the
    left neighbour's rows are here.

    Chips don't start together. If I write to a chip that is still running the previous
    program, I overwrite that program's data. So neighbours first tell each other that
    they have started. Each chip has a semaphore for that,
    `pltpu.get_barrier_semaphore()`, which exists before the kernel starts:

        me:         signal left, signal right, wait for 2 signals    then copy
        neighbour:  signal left, signal right, wait for 2 signals    then copy

    `pl.semaphore_signal(semaphore, device_id=(number,))` adds 1 to another chip's
    semaphore. `pl.semaphore_wait(semaphore, 2)` waits until mine is at least 2, and
    subtracts 2. `collective_id=0` in the launch gives the kernel its barrier semaphore.

    Each chip sends its quarter over one link. For 4096 x 4096 in bfloat16, that
    is 8 MiB on each link, all at the same time.

Shapes
    name       dtype[dims]     memory space   Ref's shape   block
    x_ref      x.dtype[M, N]   HBM            (M / 4, N)    whole
    o_ref      x.dtype[M, N]   HBM            (M / 4, N)    whole
    send_sem   dma semaphore   SMEM scratch   ()            -
    recv_sem   dma semaphore   SMEM scratch   ()            -

    Ref's shape and block are per chip.

Try
    pytest -k right_permute          stuck?  kata hint right_permute

Needs     async_copy
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


def right_permute_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.roll(x, x.shape[0] // 4, axis=0)


def right_permute_kernel(x_ref, o_ref, send_sem, recv_sem):
    """Send x_ref to o_ref on the right neighbour."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "wait until both neighbours have begun, then send x_ref to o_ref of the right one, and wait"
    )
    # END SOLUTION


def right_permute(x: Float[Array, "M N"], *, mesh) -> Float[Array, "M N"]:
    """Launch: the kernel on each chip of the mesh, with its rows of x. Given."""

    def on_each(x):
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            right_permute_kernel,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="right_permute",
        )(x)

    rows = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)(x)


def test_right_permute(hidden_case):
    hidden_case.grade(right_permute)
