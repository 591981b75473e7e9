"""Right kernels of group_metadata in other styles: see docs/authoring.md."""

# ---- nonzero ----

"""Draws the staircase of groups and tiles, and lists its marks with nonzero.

Stars: 3
"""


def group_metadata(group_sizes, *, M, tm):
    (G,), T = group_sizes.shape, M // tm
    offsets = jnp.cumulative_sum(group_sizes, include_initial=True)
    tile = jnp.arange(T) * tm
    touches = (offsets[:-1, None] < tile + tm) & (offsets[1:, None] > tile)
    touches &= (group_sizes > 0)[:, None]
    ids, tiles = jnp.nonzero(touches, size=T + G - 1, fill_value=(G - 1, T - 1))
    return offsets, ids.astype(jnp.int32), tiles.astype(jnp.int32), touches.sum(dtype=jnp.int32)


# ---- searchsorted ----

"""Looks visits up among the ends of the groups; the tile follows from the group.

Stars: 3
"""


def group_metadata(group_sizes, *, M, tm):
    G, T = group_sizes.size, M // tm
    offsets = jnp.pad(jnp.cumsum(group_sizes), (1, 0))
    first_tile = offsets[:-1] // tm
    tiles = jnp.where(group_sizes > 0, -(-offsets[1:] // tm) - first_tile, 0)
    ends = jnp.cumsum(tiles)
    visit = jnp.arange(T + G - 1)
    group = jnp.minimum(jnp.searchsorted(ends, visit, side="right"), G - 1)
    tile = first_tile[group] + visit - (ends - tiles)[group]
    used = visit < ends[-1]
    return (
        offsets,
        group.astype(jnp.int32),
        jnp.where(used, tile, T - 1).astype(jnp.int32),
        ends[-1],
    )
