"""Right kernels of ring_of_slots in other styles: see docs/authoring.md."""

# ---- brings_after_it_has_sent ----

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


# ---- turn_by_turn ----

"""One turn of the ring in each turn of the loop: slots are Python ints.

Stars: 3
"""


def ring_of_slots_kernel(x_hbm, p_ref, o_hbm, ring, sems):
    slots, bm, _ = ring.shape
    steps = x_hbm.shape[0] // bm
    half = slots // 2

    def bring(i, slot):
        rows = x_hbm.at[pl.ds(i * bm, bm)]
        return pltpu.make_async_copy(rows, ring.at[slot], sems.at[0, slot])

    def send(i, slot):
        rows = o_hbm.at[pl.ds(i * bm, bm)]
        return pltpu.make_async_copy(ring.at[slot], rows, sems.at[1, slot])

    def step(i, slot):
        other = (slot + half) % slots

        @pl.when(i + half < steps)
        def _():
            pl.when(i + half >= slots)(lambda: send(0, other).wait())
            bring(i + half, other).start()

        bring(i, slot).wait()
        x = ring[slot].astype(jnp.float32)
        ring[slot] = ((x - p_ref[0:1]) * p_ref[1:2]).astype(ring.dtype)
        send(i, slot).start()

    for i in range(half):
        bring(i, i).start()

    @pl.loop(0, pl.cdiv(steps, slots))
    def _(turn):
        for slot in range(slots):
            i = turn * slots + slot
            pl.when(i < steps)(lambda i=i, slot=slot: step(i, slot))

    for slot in range(slots):
        send(0, slot).wait()


# ---- waits_in_every_step ----

"""Each step waits for what left half a turn ago, whether its slot is needed again or not.

Stars: 3
"""


def ring_of_slots_kernel(x_hbm, p_ref, o_hbm, ring, sems):
    slots, bm, _ = ring.shape
    steps = x_hbm.shape[0] // bm
    leaving = slots // 2
    coming = slots - leaving

    def copy(i, to_hbm):
        rows, slot = x_hbm.at[pl.ds(i * bm, bm)], ring.at[jax.lax.rem(jnp.int32(i), slots)]
        sem = sems.at[int(to_hbm), jax.lax.rem(jnp.int32(i), slots)]
        if to_hbm:
            return pltpu.make_async_copy(slot, o_hbm.at[pl.ds(i * bm, bm)], sem)
        return pltpu.make_async_copy(rows, slot, sem)

    def step(i, _):
        slot = jax.lax.rem(i, slots)
        pl.when(i >= leaving)(lambda: copy(i - leaving, True).wait())
        pl.when(i + coming < steps)(lambda: copy(i + coming, False).start())
        copy(i, False).wait()
        ring[slot] = ((ring[slot] - p_ref[0]) * p_ref[1]).astype(ring.dtype)
        copy(i, True).start()

    jax.lax.fori_loop(0, coming, lambda i, _: copy(i, False).start(), None)
    jax.lax.fori_loop(0, steps, step, None)
    jax.lax.fori_loop(steps - leaving, steps, lambda i, _: copy(i, True).wait(), None)
