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
