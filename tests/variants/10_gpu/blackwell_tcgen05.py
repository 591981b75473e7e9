"""Right kernels of blackwell_tcgen05 in other styles: see docs/authoring.md."""

# ---- tells_apart ----

"""Has products arrive by tcgen05_commit_arrive alone, the first one outside of the loop.

Stars: 3
"""


def blackwell_tcgen05_kernel(
    a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, acc_tmem, here, free, done
):
    (slots, bm, bk), bn = a_smem.shape, b_smem.shape[2]
    steps = a_gmem.shape[1] // bk
    corner = pl.ds(lax.axis_index("i") * bm, bm), pl.ds(lax.axis_index("j") * bn, bn)

    def bring(k):
        slot, inner = lax.rem(k, slots), pl.ds(k * bk, bk)
        plgpu.copy_gmem_to_smem(a_gmem.at[corner[0], inner], a_smem.at[slot], here.at[slot])
        plgpu.copy_gmem_to_smem(b_gmem.at[inner, corner[1]], b_smem.at[slot], here.at[slot])

    def multiply(k, accumulate):
        slot = lax.rem(k, slots)
        plgpu.barrier_wait(here.at[slot])
        plgpu.tcgen05_mma(acc_tmem, a_smem.at[slot], b_smem.at[slot], accumulate=accumulate)
        plgpu.tcgen05_commit_arrive(free.at[slot])

    @pl.loop(0, min(slots, steps))
    def prologue(k):
        bring(k)

    multiply(jnp.int32(0), False)

    @pl.loop(1, steps)
    def step(k):
        multiply(k, True)

        @pl.when(k - 1 + slots < steps)
        def refill():
            plgpu.barrier_wait(free.at[lax.rem(k - 1, slots)])
            bring(k - 1 + slots)

    plgpu.tcgen05_commit_arrive(done)
    plgpu.barrier_wait(done)
    o_smem[...] = plgpu.async_load_tmem(acc_tmem).astype(o_smem.dtype)
    plgpu.wait_load_tmem()
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[corner])
    plgpu.wait_smem_to_gmem(0)


# ---- waits_for_its_slot ----

"""Brings a box where it is needed, into a slot that has been waited for; no prologue.

Stars: 3
"""


def blackwell_tcgen05_kernel(
    a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, acc_tmem, here, free, done
):
    (slots, bm, bk), bn = a_smem.shape, b_smem.shape[2]
    rows = pl.ds(lax.axis_index("i") * bm, bm)
    columns = pl.ds(lax.axis_index("j") * bn, bn)

    @pl.loop(0, a_gmem.shape[1] // bk)
    def step(k):
        slot = lax.rem(k, slots)

        @pl.when(k >= slots)
        def wait():
            plgpu.barrier_wait(free.at[slot])

        inner = pl.ds(k * bk, bk)
        plgpu.copy_gmem_to_smem(a_gmem.at[rows, inner], a_smem.at[slot], here.at[slot])
        plgpu.copy_gmem_to_smem(b_gmem.at[inner, columns], b_smem.at[slot], here.at[slot])
        plgpu.barrier_wait(here.at[slot])
        plgpu.tcgen05_mma(
            acc_tmem, a_smem.at[slot], b_smem.at[slot], free.at[slot], accumulate=k > 0
        )

    plgpu.tcgen05_commit_arrive(done)
    plgpu.barrier_wait(done)
    o_smem[...] = plgpu.async_load_tmem(acc_tmem).astype(o_smem.dtype)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows, columns])
    plgpu.wait_smem_to_gmem(0)
