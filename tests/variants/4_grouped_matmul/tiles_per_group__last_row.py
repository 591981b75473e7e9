"""From the tile of the first row to the tile of the last row.

Stars: 3
"""


def tiles_per_group(group_sizes, group_offsets, *, tm):
    first_row, last_row = group_offsets[:-1], group_offsets[1:] - 1
    return (last_row // tm - first_row // tm + 1) * (group_sizes > 0)
