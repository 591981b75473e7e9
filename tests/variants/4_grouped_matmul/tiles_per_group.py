"""Right kernels of tiles_per_group in other styles: see docs/authoring.md."""

# ---- cdiv ----

"""Counts from the start of the group's first tile, with pl.cdiv and lax.select.

Stars: 3
"""

from jax.experimental import pallas as pl


def tiles_per_group(group_sizes, group_offsets, *, tm):
    skipped = group_offsets[:-1] % tm
    tiles = pl.cdiv(skipped + group_sizes, tm)
    return jax.lax.select(group_sizes > 0, tiles, jnp.zeros_like(tiles))


# ---- last_row ----

"""From the tile of the first row to the tile of the last row.

Stars: 3
"""


def tiles_per_group(group_sizes, group_offsets, *, tm):
    first_row, last_row = group_offsets[:-1], group_offsets[1:] - 1
    return (last_row // tm - first_row // tm + 1) * (group_sizes > 0)
