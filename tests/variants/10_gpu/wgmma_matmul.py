"""Right kernels of wgmma_matmul in other styles: see docs/authoring.md."""

# ---- stores_in_the_scope ----

"""The result is read, stored and sent inside of the accumulator's scope.

Stars: 3
"""


def wgmma_matmul_kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, here):
    (bm, bk), bn = a_smem.shape, b_smem.shape[1]
    i, j = lax.axis_index("i"), lax.axis_index("j")
    a_rows, b_columns = a_gmem.at[pl.ds(i * bm, bm)], b_gmem.at[:, pl.ds(j * bn, bn)]

    def scope(acc):
        def step(k, _):
            plgpu.copy_gmem_to_smem(b_columns.at[pl.ds(k * bk, bk)], b_smem, here)
            plgpu.copy_gmem_to_smem(a_rows.at[:, pl.ds(k * bk, bk)], a_smem, here)
            plgpu.barrier_wait(here)
            plgpu.wgmma(acc, a_smem, b_smem)
            plgpu.wgmma_wait(0)

        lax.fori_loop(0, a_gmem.shape[1] // bk, step, None)
        o_smem[...] = acc[...].astype(o_smem.dtype)

    pl.run_scoped(scope, plgpu.ACC((bm, bn)))
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(i * bm, bm), pl.ds(j * bn, bn)])
    plgpu.wait_smem_to_gmem(0)


# ---- waits_at_the_top ----

"""Waits for the last product where its boxes are needed again, and sends through a view.

Stars: 3
"""


def wgmma_matmul_kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, here):
    (bm, bk), bn = a_smem.shape, b_smem.shape[1]
    rows = pl.ds(lax.axis_index("i") * bm, bm)
    columns = pl.ds(lax.axis_index("j") * bn, bn)

    def multiply(acc):
        @pl.loop(0, a_gmem.shape[1], step=bk)
        def step(k):
            plgpu.wgmma_wait(0)
            plgpu.copy_gmem_to_smem(a_gmem.at[rows, pl.ds(k, bk)], a_smem, here)
            plgpu.copy_gmem_to_smem(b_gmem.at[pl.ds(k, bk), columns], b_smem, here)
            plgpu.barrier_wait(here)
            plgpu.wgmma(acc, a_smem, b_smem)

        return acc[...]

    o_smem[...] = pl.run_scoped(multiply, plgpu.ACC((bm, bn), jnp.float32)).astype(o_smem.dtype)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows].at[:, columns])
    plgpu.wait_smem_to_gmem(0)
