"""Right kernels of row_gather in other styles: see docs/authoring.md."""

# ---- a_wait_for_eight_rows ----

"""Copies start in a loop of eight Python ints, and each wait takes the bytes of eight rows.

Stars: 3
"""


def row_gather_kernel(ids, table, o_ref, sem):
    bt = o_ref.shape[0]
    here = pl.program_id(0) * bt

    @pl.loop(0, bt // 8)
    def _(turn):
        for r in range(8):
            row = pl.ds(ids[here + 8 * turn + r], 1)
            pltpu.async_copy(table.at[row], o_ref.at[pl.ds(8 * turn + r, 1)], sem)

    @pl.loop(0, bt // 8)
    def _(turn):
        eight = o_ref.at[pl.ds(8 * turn, 8)]
        pltpu.make_async_copy(eight, eight, sem).wait()


# ---- two_semaphores ----

"""Even and odd rows count on semaphores of their own, for no reason but symmetry.

Stars: 3
"""


def row_gather_kernel(ids, table, o_ref, sem):
    bt = o_ref.shape[0]

    def gather(odd):
        def start(n, _):
            r = 2 * n + jnp.int32(0)
            one, two = (table.at[ids[pl.program_id(0) * bt + r + side]] for side in (0, 1))
            pltpu.make_async_copy(one, o_ref.at[r], sem).start()
            pltpu.make_async_copy(two, o_ref.at[r + 1], odd).start()

        jax.lax.fori_loop(0, bt // 2, start, None, unroll=4)
        half = o_ref.at[pl.ds(0, bt // 2)]
        pltpu.make_async_copy(half, half, sem).wait()
        pltpu.make_async_copy(half, half, odd).wait()

    pl.run_scoped(gather, pltpu.SemaphoreType.DMA)


# ---- waits_one_by_one ----

"""A second loop waits for each row, and neither loop is unrolled.

Stars: 3
"""


def row_gather_kernel(ids, table, o_ref, sem):
    bt = o_ref.shape[0]
    first = pl.program_id(0) * bt

    def copy(r):
        return pltpu.make_async_copy(table.at[ids[first + r]], o_ref.at[r], sem)

    jax.lax.fori_loop(0, bt, lambda r, _: copy(r).start(), None)
    jax.lax.fori_loop(0, bt, lambda r, _: copy(r).wait(), None)
