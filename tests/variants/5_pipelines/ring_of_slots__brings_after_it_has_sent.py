"""The slot for a block further ahead is freed and filled at the end of the step before.

Stars: 3
"""


def ring_of_slots_kernel(x_hbm, p_ref, o_hbm, ring, sems):
    slots, bm, _ = ring.shape
    steps = x_hbm.shape[0] // bm
    ahead = slots // 2 + 1

    def copies(i):
        rows, slot = pl.ds(i * bm, bm), i % slots
        bring = pltpu.make_async_copy(x_hbm.at[rows], ring.at[slot], sems.at[0, slot])
        return bring, pltpu.make_async_copy(ring.at[slot], o_hbm.at[rows], sems.at[1, slot])

    for i in range(ahead):
        copies(i)[0].start()

    @pl.loop(0, steps)
    def _(i):
        bring, send = copies(i)
        bring.wait()
        x = ring.at[i % slots]
        x[...] = ((x[...].astype(jnp.float32) - p_ref[0:1]) * p_ref[1:2]).astype(x.dtype)
        send.start()

        @pl.when(i + ahead < steps)
        def _():
            @pl.when(i + ahead >= slots)
            def _():
                copies(i + ahead - slots)[1].wait()

            copies(i + ahead)[0].start()

    @pl.loop(steps - slots, steps)
    def _(i):
        copies(i)[1].wait()
