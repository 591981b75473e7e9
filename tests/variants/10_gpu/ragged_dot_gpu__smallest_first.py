"""Zeros without a product where there are no weights; boxes from the smallest to the largest.

Stars: 3
"""


def ragged_dot_gpu_kernel(
    groups_gmem, blocks_gmem, offsets_gmem, x_gmem, w_gmem, o_gmem, x_smem, w_smem, o_smem, here
):
    (slots, bm, bk), bn = x_smem.shape, w_smem.shape[2]
    visit, columns = lax.axis_index("visit"), pl.ds(lax.axis_index("j") * bn, bn)
    group, top = groups_gmem[visit], blocks_gmem[visit] * bm
    first = lax.max(offsets_gmem[group], top)
    end = lax.min(offsets_gmem[group + 1], top + bm)
    steps = x_gmem.shape[1] // bk

    def bring(k):
        slot = k % slots
        inner = pl.ds(k * bk, bk)
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(top, bm), inner], x_smem.at[slot], here.at[slot])
        plgpu.copy_gmem_to_smem(w_gmem.at[group, inner, columns], w_smem.at[slot], here.at[slot])

    def multiply(acc):
        bring(jnp.int32(0))

        @pl.loop(0, steps)
        def step(k):
            plgpu.wgmma_wait(0)

            @pl.when(k + 1 < steps)
            def _():
                bring(k + 1)

            plgpu.barrier_wait(here.at[k % slots])
            plgpu.wgmma(acc, x_smem.at[k % slots], w_smem.at[k % slots])

        return acc[...].astype(o_smem.dtype)

    def send(rows, at):
        @pl.when((end - first) & rows == rows)
        def _():
            plgpu.copy_smem_to_gmem(
                o_smem.at[pl.ds(at - top, rows)], o_gmem.at[pl.ds(at, rows), columns]
            )

        return at + ((end - first) & rows)

    @pl.when(end > first)
    def _():
        @pl.when(group < w_gmem.shape[0])
        def _():
            o_smem[...] = pl.run_scoped(multiply, plgpu.ACC((bm, bn), jnp.float32))

        @pl.when(group == w_gmem.shape[0])
        def _():
            o_smem[...] = plgpu.layout_cast(jnp.zeros((bm, bn), o_smem.dtype), plgpu.Layout.WGMMA)

        plgpu.commit_smem()
        at, rows = first, 1
        while rows <= bm:
            at = send(rows, at)
            rows *= 2
        plgpu.wait_smem_to_gmem(0)
