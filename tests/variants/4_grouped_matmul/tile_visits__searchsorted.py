"""Counts from the first group with rows in a tile to the last, less the empty ones between.

Stars: 3
"""


def tile_visits(group_sizes, group_offsets, *, M, tm):
    first_row = tm * jnp.arange(M // tm)
    sizes_before = jnp.pad(jnp.cumsum(group_sizes > 0), (1, 0))
    first = jnp.searchsorted(group_offsets[1:], first_row, side="right")
    end = jnp.searchsorted(group_offsets[:-1], first_row + tm, side="left")
    return (sizes_before[end] - sizes_before[first]).astype(jnp.int32)
