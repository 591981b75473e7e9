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


# ---- barrier_each ----

"""A barrier for each operand, from run_scoped, and a third box for the sum.

Stars: 3
"""


def tma_copy(x, y, *, bm=64, bn=128):
    def kernel(x_gmem, y_gmem, o_gmem):
        box = tuple(
            pl.ds(lax.axis_index(name) * size, size) for name, size in (("i", bm), ("j", bn))
        )

        def scoped(x_smem, y_smem, o_smem, x_here, y_here):
            plgpu.copy_gmem_to_smem(x_gmem.at[box], x_smem, x_here)
            plgpu.copy_gmem_to_smem(y_gmem.at[box], y_smem, y_here)
            plgpu.barrier_wait(x_here)
            plgpu.barrier_wait(y_here)
            o_smem[...] = lax.add(x_smem[...], y_smem[...])
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[box])
            plgpu.wait_smem_to_gmem(0)

        smem = plgpu.SMEM((bm, bn), x.dtype)
        pl.run_scoped(scoped, smem, smem, smem, plgpu.Barrier(), plgpu.Barrier())

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // bm, x.shape[1] // bn),
        grid_names=("i", "j"),
    )(x, y)
