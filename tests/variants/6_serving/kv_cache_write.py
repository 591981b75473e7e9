"""Right kernels of kv_cache_write in other styles: see docs/authoring.md."""

# ---- reads_the_old_one ----

"""Brings the rows from the old cache, the same array, and counts all copies on one semaphore.

Stars: 3
"""


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, rows_ref, sems):
    B, G, T, D = rows_ref.shape
    rows = jax.lax.broadcasted_iota(jnp.int32, (1, T, D), 1)

    def bring(b):
        place = pl.ds(jax.lax.shift_right_logical(positions_ref[b], T.bit_length() - 1) * T, T)
        return pltpu.make_async_copy(old_hbm.at[b, :, place], rows_ref.at[b], sems.at[0])

    def send(b):
        place = pl.ds(positions_ref[b] // T * T, T)
        return pltpu.make_async_copy(rows_ref.at[b], cache_hbm.at[b, :, place], sems.at[0])

    def change(b, _):
        row = jax.lax.rem(positions_ref[b], T)
        rows_ref[b] = jnp.where(rows == row, new_ref[b].reshape(G, 1, D), rows_ref[b])

    jax.lax.fori_loop(0, B, lambda b, _: bring(b).start(), None)
    jax.lax.fori_loop(0, B, lambda b, _: bring(b).wait(), None)
    jax.lax.fori_loop(0, B, change, None)
    jax.lax.fori_loop(0, B, lambda b, _: send(b).start(), None)
    jax.lax.fori_loop(0, B, lambda b, _: send(b).wait(), None)


# ---- semaphore_each ----

"""A semaphore for each sequence: its rows are changed and sent as soon as they have come.

Stars: 3
"""


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, rows_ref, sems):
    B, G, T, D = rows_ref.shape

    def change(sems):
        def copy(b, back):
            start = pl.multiple_of(positions_ref[b] // T * T, T)
            ends = cache_hbm.at[b, :, pl.ds(start, T)], rows_ref.at[b]
            return pltpu.make_async_copy(*(ends[::-1] if back else ends), sems.at[b])

        @pl.loop(0, B)
        def _(b):
            copy(b, back=False).start()

        @pl.loop(0, B)
        def _(b):
            copy(b, back=False).wait()
            is_new = jax.lax.broadcasted_iota(jnp.int32, (T, D), 0) == positions_ref[b] % T
            for g in range(G):
                rows_ref[b, g] = jnp.where(is_new, new_ref[b, g][None], rows_ref[b, g])
            copy(b, back=True).start()

        @pl.loop(0, B)
        def _(b):
            copy(b, back=True).wait()

    pl.run_scoped(change, pltpu.SemaphoreType.DMA((B,)))


# ---- reads_only_what_it_keeps ----

"""Reads nothing if a row has whole words: the new rows of float32 are sent as they are.

Stars: 3
"""


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, rows_ref, sems):
    B, G, T, D = rows_ref.shape

    def place(b):
        return cache_hbm.at[b, :, pl.ds(pl.multiple_of(positions_ref[b] // T * T, T), T)]

    if T > 1:

        @pl.loop(0, B)
        def _(b):
            pltpu.async_copy(place(b), rows_ref.at[b], sems.at[0])

        @pl.loop(0, B)
        def _(b):
            pltpu.make_async_copy(place(b), rows_ref.at[b], sems.at[0]).wait()

    def change(b, _):
        row = jax.lax.broadcasted_iota(jnp.int32, (1, T, 1), 1)
        new = jax.lax.broadcast_in_dim(new_ref[b], (G, T, D), (0, 2))
        is_new = jnp.broadcast_to(row == positions_ref[b] % T, new.shape)
        rows_ref[b] = jax.lax.select(is_new, new, rows_ref[b]) if T > 1 else new
        pltpu.async_copy(rows_ref.at[b], place(b), sems.at[1])
        return _

    jax.lax.fori_loop(0, B, change, 0)
    pltpu.make_async_copy(rows_ref, rows_ref, sems.at[1]).wait()
