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
