"""Right kernels of kv_cache_write in other styles: see docs/authoring.md."""

# ---- reads_the_old_one ----

"""Brings tiles from the old cache, which is the same array, and counts all copies on one semaphore.

Stars: 3
"""


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, tiles_ref, sems):
    B, G, T, D = tiles_ref.shape
    rows = jax.lax.broadcasted_iota(jnp.int32, (1, T, D), 1)

    def bring(b):
        tile = pl.ds(jax.lax.shift_right_logical(positions_ref[b], T.bit_length() - 1) * T, T)
        return pltpu.make_async_copy(old_hbm.at[b, :, tile], tiles_ref.at[b], sems.at[0])

    def send(b):
        tile = pl.ds(positions_ref[b] // T * T, T)
        return pltpu.make_async_copy(tiles_ref.at[b], cache_hbm.at[b, :, tile], sems.at[0])

    def change(b, _):
        row = jax.lax.rem(positions_ref[b], T)
        tiles_ref[b] = jnp.where(rows == row, new_ref[b].reshape(G, 1, D), tiles_ref[b])

    jax.lax.fori_loop(0, B, lambda b, _: bring(b).start(), None)
    jax.lax.fori_loop(0, B, lambda b, _: bring(b).wait(), None)
    jax.lax.fori_loop(0, B, change, None)
    jax.lax.fori_loop(0, B, lambda b, _: send(b).start(), None)
    jax.lax.fori_loop(0, B, lambda b, _: send(b).wait(), None)


# ---- semaphore_each ----

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


# ---- one_wait_for_all ----

"""One wait for all tiles, by a descriptor as large as all of them; the same for the way back.

Stars: 3
"""


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, tiles_ref, sems):
    B, G, T, D = tiles_ref.shape

    def tile(b):
        return cache_hbm.at[b, :, pl.ds(pl.multiple_of(positions_ref[b] // T * T, T), T)]

    def all_there(sem):
        pltpu.make_async_copy(tiles_ref, tiles_ref, sem).wait()

    def change(b, _):
        row = jax.lax.broadcasted_iota(jnp.int32, (1, T, 1), 1)
        new = jax.lax.broadcast_in_dim(new_ref[b], (G, T, D), (0, 2))
        is_new = jnp.broadcast_to(row == positions_ref[b] % T, new.shape)
        tiles_ref[b] = jax.lax.select(is_new, new, tiles_ref[b])
        pltpu.async_copy(tiles_ref.at[b], tile(b), sems.at[1])
        return _

    @pl.loop(0, B)
    def _(b):
        pltpu.async_copy(tile(b), tiles_ref.at[b], sems.at[0])

    all_there(sems.at[0])
    jax.lax.fori_loop(0, B, change, 0)
    all_there(sems.at[1])
