"""Right kernels of tile_visits in other styles: see docs/authoring.md."""

# ---- scatter ----

"""Adds one to the tile where each group begins inside, with `at` and mode="drop".

Stars: 3
"""


def tile_visits(group_sizes, group_offsets, *, M, tm):
    T = M // tm
    tile, inside = jnp.divmod(group_offsets[:-1], tm)
    place = jnp.where((group_sizes != 0) & (inside != 0), tile, T)
    return jnp.ones(T, jnp.int32).at[place].add(1, mode="drop")


# ---- searchsorted ----

"""Counts from the first group with rows in a tile to the last, less the empty ones between.

Stars: 3
"""


def tile_visits(group_sizes, group_offsets, *, M, tm):
    first_row = tm * jnp.arange(M // tm)
    sizes_before = jnp.pad(jnp.cumsum(group_sizes > 0), (1, 0))
    first = jnp.searchsorted(group_offsets[1:], first_row, side="right")
    end = jnp.searchsorted(group_offsets[:-1], first_row + tm, side="left")
    return (sizes_before[end] - sizes_before[first]).astype(jnp.int32)


# ---- vmap ----

"""Counts for one tile, and maps that over all tiles.

Stars: 3
"""


def tile_visits(group_sizes, group_offsets, *, M, tm):
    starts, ends = group_offsets[:-1], group_offsets[1:]

    def visits(tile):
        rows = jnp.minimum(ends, (tile + 1) * tm) - jnp.maximum(starts, tile * tm)
        return jnp.count_nonzero(rows > 0)

    return jax.vmap(visits)(jnp.arange(M // tm)).astype(jnp.int32)
