"""Right kernels of tma_copy in other styles: see docs/authoring.md."""

# ---- adds_into_y ----

"""Brings y first, adds into its box, and waits until only what must be read has been.

Stars: 3
"""


def tma_copy_kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, here):
    bm, bn = x_smem.shape
    box = (pl.ds(lax.axis_index("i") * bm, bm), pl.ds(lax.axis_index("j") * bn, bn))
    plgpu.copy_gmem_to_smem(y_gmem.at[box], y_smem, here)
    plgpu.copy_gmem_to_smem(x_gmem.at[box], x_smem, here)
    plgpu.barrier_wait(here)
    y_smem[...] += x_smem[...]
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(y_smem, o_gmem.at[box])
    plgpu.wait_smem_to_gmem(0, wait_read_only=True)


# ---- in_a_loop ----

"""A loop over the operands; the boxes are views of views.

Stars: 3
"""


def tma_copy_kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, here):
    bm, bn = x_smem.shape
    i, j = lax.axis_index("i"), lax.axis_index("j")

    def box(gmem):
        return gmem.at[pl.ds(i * bm, bm)].at[:, pl.ds(j * bn, bn)]

    for gmem, smem in ((x_gmem, x_smem), (y_gmem, y_smem)):
        plgpu.copy_gmem_to_smem(box(gmem), smem, here)
    plgpu.barrier_wait(here)
    total = x_smem[...] + y_smem[...]
    x_smem[...] = total
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(x_smem, box(o_gmem))
    plgpu.wait_smem_to_gmem(0)
