"""Let one warpgroup load boxes, and two multiply.

Goal
    Write the kernel of a matmul whose blocks have three warpgroups. The third loads
    boxes of a and b through a ring of slots. The first two multiply: each
    computes bm of the 2 * bm rows of the block's result. The launch is given.

Concept
    In wgmma_matmul, the tensor cores wait while boxes are loaded. One warpgroup can load
    ahead, as in pipelined_copy, but then the same 128 threads start loads, wait for
    boxes and multiply. Separate roles are easier, and faster: a *producer* that runs
    ahead as far as there are slots, and *consumers* that never copy:

        producer     bring 0 | bring 1 | bring 2 | wait | bring 3 | wait ...
                       full[0] v  full[1] v ...      ^ free[0]
        consumer 0             | multiply 0 | multiply 1 | multiply 2 ...
        consumer 1             | multiply 0 | multiply 1 | multiply 2 ...

    Each slot has two barriers. `full` completes when both boxes have arrived: two
    arrivals, one from each copy. `free` completes when both consumers have called
    `barrier_arrive`: they will not read the slot again. The producer waits for `free`
    before it loads the next box into the slot. The first boxes need no such wait, because
    their slots are unused. The slots of the last boxes aren't used again, so nobody waits
    for them.

    Both consumers share the box of b, so each byte of it is multiplied with twice the
    rows: each step loads 2 * bm * bk + bk * bn elements, for 4 * bm * bn * bk operations.

    An SM has 65,536 registers, and the compiler gives each of the 384 threads the same:
    168. A producer needs few, and an accumulator many: 64 x 256 in float32 are
    128 registers a thread. `set_max_registers(n, action=...)` gives some back
    ("decrease") or takes some ("increase"): 40 and 232 are usual, and
    128 * (40 + 2 * 232) = 64,512 fit.

    `wgmma_wait(1)` lets one product run while the next one starts. After that wait, the
    slot of the step before is free.

Shapes
    name     dtype[dims]                 memory space   Ref's shape         block
    a_gmem   a.dtype[M, K]               GMEM           (M, K)              yours
    b_gmem   a.dtype[K, N]               GMEM           (K, N)              yours
    o_gmem   a.dtype[M, N]               GMEM           (M, N)              yours
    a_smem   a.dtype[slots, 2*bm, bk]    SMEM scratch   (slots, 2*bm, bk)   -
    b_smem   a.dtype[slots, bk, bn]      SMEM scratch   (slots, bk, bn)     -
    o_smem   a.dtype[2*bm, bn]           SMEM scratch   (2*bm, bn)          -
    full     barrier[slots]              SMEM scratch   (slots,)            -
    free     barrier[slots]              SMEM scratch   (slots,)            -

Try
    pytest -k warp_specialised_matmul          stuck?  kata hint warp_specialised_matmul

Needs     wgmma_matmul, pipelined_copy
Read on   Pallas:Mosaic GPU, https://docs.jax.dev/en/latest/pallas/gpu/reference.html
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def warp_specialised_matmul_spec(
    a: Float[Array, "M K"], b: Float[Array, "K N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return a @ b


def warp_specialised_matmul_kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, full, free):
    """The third warpgroup loads boxes, the first two multiply."""
    (slots, both, bk), bn = a_smem.shape, b_smem.shape[2]
    bm = both // 2
    i, j, wg = lax.axis_index("i"), lax.axis_index("j"), lax.axis_index("wg")
    columns = pl.ds(j * bn, bn)
    steps = a_gmem.shape[1] // bk

    @pl.when(wg == 2)
    def bring():
        # BEGIN SOLUTION
        plgpu.set_max_registers(40, action="decrease")

        @pl.loop(0, steps)
        def step(k):
            slot = lax.rem(k, slots)

            @pl.when(k >= slots)
            def _():
                plgpu.barrier_wait(free.at[slot])

            inner = pl.ds(k * bk, bk)
            plgpu.copy_gmem_to_smem(
                a_gmem.at[pl.ds(i * both, both), inner], a_smem.at[slot], full.at[slot]
            )
            plgpu.copy_gmem_to_smem(b_gmem.at[inner, columns], b_smem.at[slot], full.at[slot])

        # END SOLUTION

    @pl.when(wg < 2)
    def multiply():
        mine = pl.ds(wg * bm, bm)
        # BEGIN SOLUTION
        plgpu.set_max_registers(232, action="increase")

        def products(acc):
            @pl.loop(0, steps)
            def step(k):
                slot = lax.rem(k, slots)
                plgpu.barrier_wait(full.at[slot])
                plgpu.wgmma(acc, a_smem.at[slot, mine], b_smem.at[slot])
                plgpu.wgmma_wait(1)

                @pl.when((k > 0) & (k - 1 + slots < steps))
                def _():
                    plgpu.barrier_arrive(free.at[lax.rem(k - 1, slots)])

            return acc[...]

        o_smem[mine] = pl.run_scoped(products, plgpu.ACC((bm, bn), jnp.float32)).astype(
            o_smem.dtype
        )
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem.at[mine], o_gmem.at[pl.ds(i * both + wg * bm, bm), columns])
        plgpu.wait_smem_to_gmem(0)
        # END SOLUTION


def warp_specialised_matmul(
    a: Float[Array, "M K"], b: Float[Array, "K N"], *, bm=64, bn=128, bk=64, slots=4
) -> Float[Array, "M N"]:
    """Launch: three warpgroups, a ring of boxes, and two barriers for each slot. Given."""
    M, N = a.shape[0], b.shape[1]
    layout = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    return plgpu.kernel(
        warp_specialised_matmul_kernel,
        out_type=jax.ShapeDtypeStruct((M, N), a.dtype),
        scratch_types=(
            plgpu.SMEM((slots, 2 * bm, bk), a.dtype, transforms=layout),
            plgpu.SMEM((slots, bk, bn), b.dtype, transforms=layout),
            plgpu.SMEM((2 * bm, bn), a.dtype, transforms=layout),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
        ),
        grid=(M // (2 * bm), N // bn),
        grid_names=("i", "j"),
        num_threads=3,
        thread_name="wg",
    )(a, b)


def test_warp_specialised_matmul(hidden_case):
    hidden_case.grade(warp_specialised_matmul)
