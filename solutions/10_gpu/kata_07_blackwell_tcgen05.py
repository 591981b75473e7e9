"""Multiply on a Blackwell: sums in tensor memory, and one thread that starts the products.

Goal
    Write the kernel of a matmul in float16 or bfloat16 for a B200. Each block computes one
    box of the result, (bm, bn). It loads boxes of a and b through a ring of slots; the
    tensor cores multiply them, and sum in tensor memory. `bring`, which starts both copies
    of a step, and the launch are given.

Concept
    A Hopper's accumulator is in registers: 128 x 256 sums in float32 would need 256
    registers in each thread of a warpgroup, but a thread has 255. A Blackwell SM has
    *tensor memory* (TMEM) for sums, 128 lanes by 512 columns of 32 bits, 256 KiB:

                               b_smem[slot]  (bk, bn)
                              +--------------+
        a_smem[slot]          +--------------+
        +--------+            +--------------+ column
        |        |   lane 0   |              |
        |        |            |  acc_tmem    |  ...  512
        |        |            |  (bm, bn)    |
        +--------+   lane 127 +--------------+

    `plgpu.tcgen05_mma(acc, a, b, barrier, accumulate=...)` starts a product. No warpgroup
    computes it: one thread hands it to the tensor cores, which read SMEM, add to TMEM, and
    arrive at `barrier` when they have finished. Products end in the order in which they
    were started. `accumulate` says whether to add to the contents of acc; new TMEM isn't
    initialised. So a single warpgroup can keep copies and products in flight:

        time ->     |         |         |         |         |
        TMA         box 0,1   box 2     box 3     box 4
        tensor      mma 0     mma 1     mma 2     mma 3      mma 4
        free          slot 0 ->|  slot 1 ->|  slot 0 ->|

    Start product k first, and then wait for product k - 1, whose slot is the next to be
    filled. That way the tensor cores always have a product to work on.

    `plgpu.tcgen05_commit_arrive(barrier)` makes all products so far arrive there once they
    have ended. After a wait on that barrier, `plgpu.async_load_tmem(acc)` loads the sums
    into registers, as a value. Barriers at which the tensor cores arrive are made with
    `orders_tensor_core=True`.

    4096 x 4096 x 4096 takes a B200 61 µs at its peak of 2250 TFLOP/s, an H100 139 µs.

Shapes
    name           dtype[dims]              memory space   Ref's shape       block
    a_gmem         a.dtype[M, K]            GMEM           (M, K)            yours
    b_gmem         a.dtype[K, N]            GMEM           (K, N)            yours
    o_gmem         a.dtype[M, N]            GMEM           (M, N)            yours
    a_smem         a.dtype[slots, bm, bk]   SMEM scratch   (slots, bm, bk)   -
    b_smem         a.dtype[slots, bk, bn]   SMEM scratch   (slots, bk, bn)   -
    o_smem         a.dtype[bm, bn]          SMEM scratch   (bm, bn)          -
    acc_tmem       float32[bm, bn]          TMEM scratch   (bm, bn)          -
    here, free     barrier[slots]           SMEM scratch   (slots,)          -
    done           barrier                  SMEM scratch   ()                -

Try
    pytest -k blackwell_tcgen05          stuck?  kata hint blackwell_tcgen05

Needs     warp_specialised_matmul
Read on   PTX, tcgen05, https://docs.nvidia.com/cuda/parallel-thread-execution/
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def blackwell_tcgen05_spec(a: Float[Array, "M K"], b: Float[Array, "K N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return a @ b


def blackwell_tcgen05_kernel(
    a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, acc_tmem, here, free, done
):
    """Compute one box of the result, through a ring of slots."""
    (slots, bm, bk), bn = a_smem.shape, b_smem.shape[2]
    steps = a_gmem.shape[1] // bk
    rows = pl.ds(lax.axis_index("i") * bm, bm)
    columns = pl.ds(lax.axis_index("j") * bn, bn)

    def bring(k):
        slot, inner = lax.rem(k, slots), pl.ds(k * bk, bk)
        plgpu.copy_gmem_to_smem(a_gmem.at[rows, inner], a_smem.at[slot], here.at[slot])
        plgpu.copy_gmem_to_smem(b_gmem.at[inner, columns], b_smem.at[slot], here.at[slot])

    # BEGIN SOLUTION
    for first in range(min(slots, steps)):
        bring(jnp.int32(first))

    @pl.loop(0, steps)
    def step(k):
        slot = lax.rem(k, slots)
        plgpu.barrier_wait(here.at[slot])
        a, b = a_smem.at[slot], b_smem.at[slot]
        plgpu.tcgen05_mma(acc_tmem, a, b, free.at[slot], accumulate=k > 0)

        @pl.when((k > 0) & (k - 1 + slots < steps))
        def refill():
            plgpu.barrier_wait(free.at[lax.rem(k - 1, slots)])
            bring(k - 1 + slots)

    plgpu.tcgen05_commit_arrive(done)
    plgpu.barrier_wait(done)
    o_smem[...] = plgpu.async_load_tmem(acc_tmem).astype(o_smem.dtype)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows, columns])
    plgpu.wait_smem_to_gmem(0)
    # END SOLUTION


def blackwell_tcgen05(
    a: Float[Array, "M K"], b: Float[Array, "K N"], *, bm=128, bn=128, bk=64, slots=2
) -> Float[Array, "M N"]:
    """Launch: a block for each box of the result. Given."""
    M, N = a.shape[0], b.shape[1]
    layout = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    return plgpu.kernel(
        blackwell_tcgen05_kernel,
        out_type=jax.ShapeDtypeStruct((M, N), a.dtype),
        scratch_types=(
            plgpu.SMEM((slots, bm, bk), a.dtype, transforms=layout),
            plgpu.SMEM((slots, bk, bn), b.dtype, transforms=layout),
            plgpu.SMEM((bm, bn), a.dtype, transforms=layout),
            plgpu.TMEM((bm, bn), jnp.float32),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
            plgpu.Barrier(num_barriers=slots, orders_tensor_core=True),
            plgpu.Barrier(orders_tensor_core=True),
        ),
        grid=(M // bm, N // bn),
        grid_names=("i", "j"),
    )(a, b)


def test_blackwell_tcgen05(hidden_case):
    hidden_case.grade(blackwell_tcgen05)
