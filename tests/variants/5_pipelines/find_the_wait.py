"""Right kernels of find_the_wait in other styles: see docs/authoring.md."""

# ---- one_result_leaving ----

"""Each step waits for the result of the step before: one copy to o is under way at a time.

Stars: 3
"""


def find_the_wait_kernel(g_hbm, u_hbm, s_hbm, o_hbm, g_ref, u_ref, s_ref, o_ref, sems, s_sem):
    bm = g_ref.shape[1]
    steps = g_hbm.shape[0] // bm

    def bring(hbm, ref, i, slot):
        return pltpu.make_async_copy(hbm.at[pl.ds(i * bm, bm)], ref.at[slot], sems.at[0, slot])

    def send(i, slot):
        return pltpu.make_async_copy(o_ref.at[slot], o_hbm.at[pl.ds(i * bm, bm)], sems.at[1, slot])

    bring_s = pltpu.make_async_copy(s_hbm, s_ref, s_sem)
    bring_s.start()
    bring(g_hbm, g_ref, 0, 0).start()
    bring(u_hbm, u_ref, 0, 0).start()

    @pl.loop(0, steps)
    def _(i):
        slot = i % 2

        @pl.when(i + 1 < steps)
        def _():
            bring(u_hbm, u_ref, i + 1, 1 - slot).start()
            bring(g_hbm, g_ref, i + 1, 1 - slot).start()

        for hbm, ref in ((u_hbm, u_ref), (g_hbm, g_ref)):
            bring(hbm, ref, i, slot).wait()
        pl.when(i == 0)(bring_s.wait)
        g = g_ref[slot].astype(jnp.float32)
        o_ref[slot] = (g / (1 + jnp.exp(-g)) * u_ref[slot] * s_ref[...]).astype(o_ref.dtype)

        @pl.when(i >= 1)
        def _():
            send(i - 1, 1 - slot).wait()

        send(i, slot).start()

    send(steps - 1, (steps - 1) % 2).wait()


# ---- s_before_the_loop ----

"""Waits for s before the loop, and takes the bytes of g and u by two waits that name g.

Stars: 3
"""


def find_the_wait_kernel(g_hbm, u_hbm, s_hbm, o_hbm, g_ref, u_ref, s_ref, o_ref, sems, s_sem):
    bm = g_ref.shape[1]
    steps = g_hbm.shape[0] // bm

    def bring(hbm, ref, i, slot):
        return pltpu.make_async_copy(hbm.at[pl.ds(i * bm, bm)], ref.at[slot], sems.at[0, slot])

    def send(i, slot):
        return pltpu.make_async_copy(o_ref.at[slot], o_hbm.at[pl.ds(i * bm, bm)], sems.at[1, slot])

    bring_s = pltpu.make_async_copy(s_hbm, s_ref, s_sem)
    bring_s.start()
    bring(g_hbm, g_ref, 0, 0).start()
    bring(u_hbm, u_ref, 0, 0).start()
    bring_s.wait()

    @pl.loop(0, steps)
    def _(i):
        slot = i % 2

        @pl.when(i + 1 < steps)
        def _():
            bring(g_hbm, g_ref, i + 1, 1 - slot).start()
            bring(u_hbm, u_ref, i + 1, 1 - slot).start()

        bring(g_hbm, g_ref, i, slot).wait()
        bring(g_hbm, g_ref, i, slot).wait()
        pl.when(i >= 2)(lambda: send(i - 2, slot).wait())
        gate = jax.nn.silu(g_ref[slot].astype(jnp.float32))
        o_ref[slot] = (gate * u_ref[slot] * s_ref[...]).astype(o_ref.dtype)
        send(i, slot).start()

    for i in (steps - 2, steps - 1):
        send(i, i % 2).wait()
