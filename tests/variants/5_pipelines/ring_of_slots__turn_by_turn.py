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
