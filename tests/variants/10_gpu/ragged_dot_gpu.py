"""Right kernels of ragged_dot_gpu in other styles: see docs/authoring.md."""

# ---- row_by_row ----

"""Brings and multiplies in turn, and sends whole boxes at once, others row by row.

Stars: 3
"""


def ragged_dot_gpu_kernel(
    groups_gmem, blocks_gmem, offsets_gmem, x_gmem, w_gmem, o_gmem, x_smem, w_smem, o_smem, here
):
    (_, bm, bk), bn = x_smem.shape, w_smem.shape[2]
    visit, j = lax.axis_index("visit"), lax.axis_index("j")
    columns = pl.ds(j * bn, bn)
    group = groups_gmem[visit]
    top = blocks_gmem[visit] * bm
    begin = jnp.maximum(offsets_gmem[group] - top, 0)
    end = jnp.minimum(offsets_gmem[group + 1] - top, bm)
    has_weights = group < w_gmem.shape[0]

    def multiply(acc):
        @pl.loop(0, jnp.where(has_weights, x_gmem.shape[1], 0), step=bk)
        def step(k):
            rows = pl.ds(top, bm)
            plgpu.copy_gmem_to_smem(x_gmem.at[rows, pl.ds(k, bk)], x_smem.at[0], here.at[0])
            plgpu.copy_gmem_to_smem(
                w_gmem.at[group].at[pl.ds(k, bk), columns], w_smem.at[0], here.at[0]
            )
            plgpu.barrier_wait(here.at[0])
            plgpu.wgmma(acc, x_smem.at[0], w_smem.at[0])
            plgpu.wgmma_wait(0)

        o_smem[...] = acc[...].astype(o_smem.dtype)

    @pl.when(begin < end)
    def _():
        pl.run_scoped(multiply, plgpu.ACC((bm, bn), jnp.float32))
        plgpu.commit_smem()
        whole = end - begin == bm

        @pl.when(whole)
        def _():
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(top, bm), columns])

        @pl.when(jnp.logical_not(whole))
        def _():
            @pl.loop(begin, end)
            def row(r):
                plgpu.copy_smem_to_gmem(
                    o_smem.at[pl.ds(r, 1)], o_gmem.at[pl.ds(top + r, 1), columns]
                )

        plgpu.wait_smem_to_gmem(0)


# ---- smallest_first ----

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
