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
