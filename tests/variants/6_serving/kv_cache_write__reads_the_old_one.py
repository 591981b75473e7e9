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
