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
