"""Right kernels of m_tile_ids in other styles: see docs/authoring.md."""

# ---- compare ----

"""For each visit, counts the tiles that are done before it.

Stars: 3
"""


def m_tile_ids(tile_visits, *, G):
    T = tile_visits.shape[0]
    visit = jax.lax.iota(jnp.int32, T + G - 1)
    done = jnp.cumsum(tile_visits)[:-1][None] <= visit[:, None]
    return done.sum(axis=1, dtype=jnp.int32)


# ---- repeat ----

"""repeat with a fixed length.

Stars: 3
"""


def m_tile_ids(tile_visits, *, G):
    (T,) = tile_visits.shape
    return jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=T + G - 1)


# ---- marks_and_scan ----

"""Marks where each tile's visits end, and adds the marks up with an associative scan.

Stars: 3
"""


def m_tile_ids(tile_visits, *, G):
    T = tile_visits.shape[0]
    ends = jax.lax.associative_scan(jnp.add, tile_visits)
    marks = jnp.zeros(T + G - 1, jnp.int32).at[ends[:-1]].add(1, mode="drop")
    return jax.lax.associative_scan(jnp.add, marks)
