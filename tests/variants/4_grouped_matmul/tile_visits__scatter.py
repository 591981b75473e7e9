"""Adds one to the tile where each group begins inside, with `at` and mode="drop".

Stars: 3
"""


def tile_visits(group_sizes, group_offsets, *, M, tm):
    T = M // tm
    tile, inside = jnp.divmod(group_offsets[:-1], tm)
    place = jnp.where((group_sizes != 0) & (inside != 0), tile, T)
    return jnp.ones(T, jnp.int32).at[place].add(1, mode="drop")
