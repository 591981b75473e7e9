"""Pads a cumulative sum.

Stars: 3
"""


def group_offsets(group_sizes):
    return jnp.pad(jnp.cumsum(group_sizes), (1, 0))
