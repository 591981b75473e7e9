"""Keep the tensor cores of a pair of SMs busy, box after box of the result.

Goal
    Write two roles of a matmul for a B200: the warpgroup that starts products, and the one
    that stores results. A block, or with pair=2 a pair of blocks, computes one box of the
    result after another. The warpgroup that loads boxes, the loop over boxes of the result
    and the launch are given.

Concept
    With a block for each box of the result, a block fills its ring, multiplies, and stores;
    then the next block starts with an empty ring, and the tensor cores wait for it. A
    *persistent* kernel launches as many blocks as there are SMs, and each computes many
    boxes: `plgpu.nd_loop` distributes them. Tensor memory has room for the sums of two
    boxes, so that one is stored while the next is multiplied:

        time ->
        wg 0 brings      0 0 0  1 1 1  2 2 2  ...        a ring that never empties
        wg 1 multiplies     0 0 0  1 1 1  2 2 2          half 0, half 1, half 0
        wg 2 sends                 0      1      2

    Box t uses half t % 2 of acc_tmem. Each half has two barriers: `done`, when its sums
    are complete, and `stored`, when they have been loaded and may be overwritten. Slots
    are counted through all boxes, by t * steps + k: a new box doesn't restart the ring.

    Two SMs can multiply together: the tensor cores of both work on one product of 2 * bm
    rows and 2 * bn columns. Each block loads its rows of a and half of the columns of b,
    and both read both halves of b:

                        b, brought by 0 | by 1
        a, block 0      sums of block 0          2 * bn columns
        a, block 1      sums of block 1

    So for 128 x 256 sums, a block loads 32 KiB per step instead of 48. One of the two
    blocks, the leader, starts products for both: with `collective_axis=axis`, tcgen05_mma
    and tcgen05_commit_arrive arrive in both blocks. With pair=1, axis is None, and each
    block is its own leader.

    4096 x 4096 x 4096 is 256 boxes of 256 x 256 for 74 pairs: four rounds, the last of 34.

Shapes
    name           dtype[dims]              memory space   Ref's shape          block
    a_gmem         a.dtype[M, K]            GMEM           (M, K)               yours
    b_gmem         a.dtype[K, N]            GMEM           (K, N)               yours
    o_gmem         a.dtype[M, N]            GMEM           (M, N)               yours
    a_smem         a.dtype[slots, bm, bk]   SMEM scratch   (slots, bm, bk)      -
    b_smem         a.dtype[slots, bk, bn]   SMEM scratch   (slots, bk, bn)      -
    o_smem         a.dtype[pair, bm, bn]    SMEM scratch   (pair, bm, bn)       -
    acc_tmem       float32[bm, 2*pair*bn]   TMEM scratch   (bm, 2 * pair * bn)  -
    here, free     barrier[slots]           SMEM scratch   (slots,)             -
    done, stored   barrier[2]               SMEM scratch   (2,)                 -

Try
    pytest -k persistent_collective_matmul
    stuck?  kata hint persistent_collective_matmul

Needs     blackwell_tcgen05
Read on   PTX, tcgen05, https://docs.nvidia.com/cuda/parallel-thread-execution/
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def persistent_collective_matmul_spec(
    a: Float[Array, "M K"], b: Float[Array, "K N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return a @ b


def persistent_collective_matmul_kernel(
    a_gmem,
    b_gmem,
    o_gmem,
    a_smem,
    b_smem,
    o_smem,
    acc_tmem,
    here,
    free,
    done,
    stored,
):
    """The first warpgroup loads, the second multiplies, the third stores."""
    (slots, bm, bk), (pair, _, bn) = a_smem.shape, o_smem.shape
    (M, K), N = a_gmem.shape, b_gmem.shape[1]
    steps, axis = K // bk, "pair" if pair == 2 else None
    wg, mine = lax.axis_index("wg"), lax.axis_index("pair")

    @plgpu.nd_loop((M // (pair * bm), N // (pair * bn)), collective_axes="cluster")
    def box(info):
        (i, j), t = info.index, info.local_index
        half = lax.rem(t, jnp.int32(2))
        acc = acc_tmem.at[:, pl.ds(half * pair * bn, pair * bn)]

        @pl.when(wg == 0)
        def bring():
            bring_boxes(t * steps, i, j, (a_gmem, b_gmem), (a_smem, b_smem), here, free, axis)

        @pl.when((wg == 1) & (mine == 0))
        def multiply():
            # BEGIN SOLUTION
            @pl.when(t >= 2)
            def wait():
                plgpu.barrier_wait(stored.at[half])

            @pl.loop(0, steps)
            def step(k):
                slot = lax.rem(t * steps + k, slots)
                plgpu.barrier_wait(here.at[slot])
                plgpu.tcgen05_mma(
                    acc,
                    a_smem.at[slot],
                    b_smem.at[slot],
                    free.at[slot],
                    accumulate=k > 0,
                    collective_axis=axis,
                )

            plgpu.tcgen05_commit_arrive(done.at[half], collective_axis=axis)
            # END SOLUTION

        @pl.when(wg == 2)
        def send():
            rows = pl.ds((i * pair + mine) * bm, bm)
            # BEGIN SOLUTION
            plgpu.barrier_wait(done.at[half])
            plgpu.wait_smem_to_gmem(0)
            for part in range(pair):
                sums = plgpu.async_load_tmem(acc.at[:, pl.ds(part * bn, bn)])
                o_smem[part] = sums.astype(o_smem.dtype)
                plgpu.commit_smem()
                columns = pl.ds((j * pair + part) * bn, bn)
                plgpu.copy_smem_to_gmem(o_smem.at[part], o_gmem.at[rows, columns])
            plgpu.wait_load_tmem()
            plgpu.barrier_arrive(stored.at[half])
            # END SOLUTION

    plgpu.wait_smem_to_gmem(0)


def persistent_collective_matmul(
    a: Float[Array, "M K"],
    b: Float[Array, "K N"],
    *,
    bm=128,
    bn=128,
    bk=64,
    slots=2,
    pair=1,
    clusters=74,
) -> Float[Array, "M N"]:
    """Launch: `clusters` clusters, each of one block or of a pair. Given."""
    M, N = a.shape[0], b.shape[1]
    layout = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    box = functools.partial(plgpu.SMEM, dtype=a.dtype, transforms=layout)
    barrier = functools.partial(plgpu.Barrier, orders_tensor_core=True)
    together = functools.partial(
        plgpu.ClusterBarrier, collective_axes=("pair",), orders_tensor_core=True
    )
    return plgpu.kernel(
        persistent_collective_matmul_kernel,
        out_type=jax.ShapeDtypeStruct((M, N), a.dtype),
        scratch_types=(
            *(box((slots, bm, bk)), box((slots, bk, bn)), box((pair, bm, bn))),
            plgpu.TMEM((bm, 2 * pair * bn), jnp.float32, collective=pair == 2),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
            barrier(num_barriers=slots),
            barrier(num_barriers=2),
            (together if pair == 2 else barrier)(num_barriers=2),
        ),
        grid=(clusters,),
        grid_names=("cluster",),
        cluster=(pair,),
        cluster_names=("pair",),
        num_threads=3,
        thread_name="wg",
    )(a, b)


# ---- Given: the role that brings. ----


def bring_boxes(first, i, j, sources, rings, here, free, axis):
    """Load boxes of a and b for all steps, from slot first % slots on, as slots become free.

    Together, the two blocks of a pair load the rows of a and the columns of b for both.
    """
    (slots, bm, bk), bn, pair = rings[0].shape, rings[1].shape[2], 2 if axis else 1
    rows, columns = pl.ds(i * pair * bm, pair * bm), pl.ds(j * pair * bn, pair * bn)

    @pl.loop(0, sources[0].shape[1] // bk)
    def step(k):
        slot, inner = lax.rem(first + k, slots), pl.ds(k * bk, bk)

        @pl.when(first + k >= slots)
        def wait():
            plgpu.barrier_wait(free.at[slot])

        boxes = (sources[0].at[rows, inner], sources[1].at[inner, columns])
        for along, (box, ring) in enumerate(zip(boxes, rings, strict=True)):
            shared = {}
            if axis:
                part = plgpu.CopyPartition.PARTITIONED(along)
                shared = {"collective_axes": axis, "leader_tracked": part}
            plgpu.copy_gmem_to_smem(box, ring.at[slot], here.at[slot], **shared)


def test_persistent_collective_matmul(hidden_case):
    hidden_case.grade(persistent_collective_matmul)
