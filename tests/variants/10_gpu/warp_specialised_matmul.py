"""Right kernels of warp_specialised_matmul in other styles: see docs/authoring.md."""

# ---- producer_first ----

"""Branches in the other order; slots are freed that nobody waits for.

Stars: 3
"""


def warp_specialised_matmul_kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, full, free):
    (slots, both, bk), bn = a_smem.shape, b_smem.shape[2]
    bm, steps = both // 2, a_gmem.shape[1] // bk
    i, j, wg = lax.axis_index("i"), lax.axis_index("j"), lax.axis_index("wg")
    a_rows, b_columns = a_gmem.at[pl.ds(i * both, both)], b_gmem.at[:, pl.ds(j * bn, bn)]

    def consume():
        plgpu.set_max_registers(240, action="increase")

        def products(acc):
            @pl.loop(0, steps)
            def _(k):
                slot = lax.rem(k, slots)
                plgpu.barrier_wait(full.at[slot])
                plgpu.wgmma(acc, a_smem.at[slot].at[pl.ds(wg * bm, bm)], b_smem.at[slot])
                plgpu.wgmma_wait(0)
                plgpu.barrier_arrive(free.at[slot])

            return acc[...]

        o = o_smem.at[pl.ds(wg * bm, bm)]
        o[...] = pl.run_scoped(products, plgpu.ACC((bm, bn), jnp.float32)).astype(o_smem.dtype)
        plgpu.commit_smem()
        rows = pl.ds(i * both + wg * bm, bm)
        plgpu.copy_smem_to_gmem(o, o_gmem.at[rows, pl.ds(j * bn, bn)])
        plgpu.wait_smem_to_gmem(0)

    def produce():
        plgpu.set_max_registers(24, action="decrease")

        def step(k, _):
            slot, inner = lax.rem(k, slots), pl.ds(k * bk, bk)
            pl.when(k >= slots)(lambda: plgpu.barrier_wait(free.at[slot]))
            plgpu.copy_gmem_to_smem(b_columns.at[inner], b_smem.at[slot], full.at[slot])
            plgpu.copy_gmem_to_smem(a_rows.at[:, inner], a_smem.at[slot], full.at[slot])

        lax.fori_loop(0, steps, step, None)

    lax.cond(wg == 2, produce, consume)


# ---- waits_for_each_product ----

"""Waits for each product before it frees the slot; the producer's first boxes are a loop apart.

Stars: 3
"""


def warp_specialised_matmul_kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, full, free):
    (slots, both, bk), bn = a_smem.shape, b_smem.shape[2]
    bm, steps = both // 2, a_gmem.shape[1] // bk
    i, j, wg = lax.axis_index("i"), lax.axis_index("j"), lax.axis_index("wg")

    def start(k, slot):
        rows, columns, inner = pl.ds(i * both, both), pl.ds(j * bn, bn), pl.ds(k * bk, bk)
        plgpu.copy_gmem_to_smem(a_gmem.at[rows, inner], a_smem.at[slot], full.at[slot])
        plgpu.copy_gmem_to_smem(b_gmem.at[inner, columns], b_smem.at[slot], full.at[slot])

    @pl.when(wg == 2)
    def _():
        plgpu.set_max_registers(24, action="decrease")
        for k in range(min(slots, steps)):
            start(k, k)

        @pl.loop(slots, steps)
        def _(k):
            plgpu.barrier_wait(free.at[lax.rem(k, slots)])
            start(k, lax.rem(k, slots))

    @pl.when(wg != 2)
    def _():
        plgpu.set_max_registers(240, action="increase")
        mine = pl.ds(wg * bm, bm)

        def products(acc):
            def step(k, _):
                slot = lax.rem(k, slots)
                plgpu.barrier_wait(full.at[slot])
                plgpu.wgmma(acc, a_smem.at[slot].at[mine], b_smem.at[slot])
                plgpu.wgmma_wait(0)
                pl.when(k + slots < steps)(lambda: plgpu.barrier_arrive(free.at[slot]))

            lax.fori_loop(0, steps, step, None)
            return acc[...].astype(o_smem.dtype)

        o_smem[mine] = pl.run_scoped(products, plgpu.ACC((bm, bn)))
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(
            o_smem.at[mine], o_gmem.at[pl.ds(i * both + wg * bm, bm), pl.ds(j * bn, bn)]
        )
        plgpu.wait_smem_to_gmem(0)
