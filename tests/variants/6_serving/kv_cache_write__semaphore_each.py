"""A semaphore for each sequence's tile: it is changed and sent as soon as it has come.

Stars: 3
"""


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, tiles_ref, sems):
    B, G, T, D = tiles_ref.shape

    def change(sems):
        def copy(b, back):
            start = pl.multiple_of(positions_ref[b] // T * T, T)
            ends = cache_hbm.at[b, :, pl.ds(start, T)], tiles_ref.at[b]
            return pltpu.make_async_copy(*(ends[::-1] if back else ends), sems.at[b])

        @pl.loop(0, B)
        def _(b):
            copy(b, back=False).start()

        @pl.loop(0, B)
        def _(b):
            copy(b, back=False).wait()
            is_new = jax.lax.broadcasted_iota(jnp.int32, (T, D), 0) == positions_ref[b] % T
            for g in range(G):
                tiles_ref[b, g] = jnp.where(is_new, new_ref[b, g][None], tiles_ref[b, g])
            copy(b, back=True).start()

        @pl.loop(0, B)
        def _(b):
            copy(b, back=True).wait()

    pl.run_scoped(change, pltpu.SemaphoreType.DMA((B,)))
