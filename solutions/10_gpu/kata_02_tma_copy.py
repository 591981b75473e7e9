"""Let the copy engine load two boxes, add them, and copy the sum back.

Goal
    Write the kernel that adds two matrices. Each block of the grid has one box of
    bm rows and bn columns. It loads that box of x and of y into shared memory, adds
    them, and copies the sum to o. The launch is given.

Concept
    Each SM has up to 227 KiB of *shared memory* (SMEM), which all warpgroups of a block
    see. It also has an engine that copies boxes of an array between SMEM and global
    memory (GMEM): the Tensor Memory Accelerator, TMA. One thread tells the engine which
    box to copy, and the data doesn't pass through registers:

        x, y in GMEM           SMEM                    o in GMEM
        . . . . . . . .
        . . +-----+ . .        +-----+                 . . +-----+ . .
        . . | i,j |   -- TMA ->| box |-- TMA ------->  . . | i,j | . .
        . . +-----+ . .        +-----+                 . . +-----+ . .
                                |   ^
                                v   |
                              registers: add

    The engine works asynchronously, so the kernel has to wait for its copies:

    - In: a copy ends with an *arrival* at a barrier. This barrier completes after two
      arrivals, from one copy of x and one of y, and then `barrier_wait` returns. Until
      then, the boxes hold old data.
    - Before out: threads store to SMEM through a different path than the one by which
      the engine reads. `commit_smem()` waits until all 128 threads have stored, and
      makes their stores visible to the engine.
    - Out: a copy out has no barrier. `wait_smem_to_gmem(n)` waits until at most n of
      this warpgroup's copies out are in flight. When the block ends, another block gets
      its SMEM, so no copy out may still be in flight.

    For 8192 x 8192 in bfloat16, 384 MiB have to move. An H100 takes at least 120 µs for
    that. With boxes of 64 x 128, a block needs 32 KiB, so six fit on an SM, and the
    boxes of five can be on their way while one adds.

Shapes
    name      dtype[dims]       memory space   Ref's shape   block
    x_gmem    x.dtype[M, N]     GMEM           (M, N)        yours
    y_gmem    x.dtype[M, N]     GMEM           (M, N)        yours
    o_gmem    x.dtype[M, N]     GMEM           (M, N)        yours
    x_smem    x.dtype[bm, bn]   SMEM scratch   (bm, bn)      -
    y_smem    x.dtype[bm, bn]   SMEM scratch   (bm, bn)      -
    here      barrier           SMEM scratch   ()            -

Try
    pytest -k tma_copy          stuck?  kata hint tma_copy

Needs     threads_and_grids, async_copy
Read on   Pallas:Mosaic GPU, https://docs.jax.dev/en/latest/pallas/gpu/reference.html
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def tma_copy_spec(x: Float[Array, "M N"], y: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x + y


def tma_copy_kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, here):
    """Add one box of x and one of y."""
    # BEGIN SOLUTION
    bm, bn = x_smem.shape
    rows = pl.ds(lax.axis_index("i") * bm, bm)
    columns = pl.ds(lax.axis_index("j") * bn, bn)
    plgpu.copy_gmem_to_smem(x_gmem.at[rows, columns], x_smem, here)
    plgpu.copy_gmem_to_smem(y_gmem.at[rows, columns], y_smem, here)
    plgpu.barrier_wait(here)
    x_smem[...] = x_smem[...] + y_smem[...]
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(x_smem, o_gmem.at[rows, columns])
    plgpu.wait_smem_to_gmem(0)
    # END SOLUTION


def tma_copy(
    x: Float[Array, "M N"], y: Float[Array, "M N"], *, bm=64, bn=128
) -> Float[Array, "M N"]:
    """Launch: a block for each box; its barrier expects two arrivals. Given."""
    box = plgpu.SMEM((bm, bn), x.dtype)
    return plgpu.kernel(
        tma_copy_kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types=(box, box, plgpu.Barrier(num_arrivals=2)),
        grid=(x.shape[0] // bm, x.shape[1] // bn),
        grid_names=("i", "j"),
    )(x, y)


def test_tma_copy(hidden_case):
    hidden_case.grade(tma_copy)
