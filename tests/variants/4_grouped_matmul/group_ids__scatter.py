"""Marks where groups end, and counts the marks.

Stars: 3
"""


def group_ids(tiles_per_group, *, M, tm):
    G = tiles_per_group.size
    V = M // tm + G - 1
    ends = jnp.cumsum(tiles_per_group)
    marks = jnp.zeros(V, jnp.int32).at[ends].add(1, mode="drop")
    return jnp.minimum(jnp.cumsum(marks), G - 1)
