"""Right kernels of group_ids in other styles: see docs/authoring.md."""

# ---- scatter ----

"""Marks where groups end, and counts the marks.

Stars: 3
"""


def group_ids(tiles_per_group, *, M, tm):
    G = tiles_per_group.size
    V = M // tm + G - 1
    ends = jnp.cumsum(tiles_per_group)
    marks = jnp.zeros(V, jnp.int32).at[ends].add(1, mode="drop")
    return jnp.minimum(jnp.cumsum(marks), G - 1)


# ---- searchsorted ----

"""Looks up each visit among the visits at which groups end.

Stars: 3
"""


def group_ids(tiles_per_group, *, M, tm):
    (G,) = tiles_per_group.shape
    visits = jnp.arange(M // tm + G - 1)
    ids = jnp.searchsorted(jnp.cumsum(tiles_per_group), visits, side="right")
    return jnp.clip(ids, 0, G - 1).astype(jnp.int32)
