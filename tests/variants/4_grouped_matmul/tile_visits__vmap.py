"""Counts for one tile, and maps that over all tiles.

Stars: 3
"""


def tile_visits(group_sizes, group_offsets, *, M, tm):
    starts, ends = group_offsets[:-1], group_offsets[1:]

    def visits(tile):
        rows = jnp.minimum(ends, (tile + 1) * tm) - jnp.maximum(starts, tile * tm)
        return jnp.count_nonzero(rows > 0)

    return jax.vmap(visits)(jnp.arange(M // tm)).astype(jnp.int32)
