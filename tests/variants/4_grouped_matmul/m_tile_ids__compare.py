"""For each visit, counts the tiles that are done before it.

Stars: 3
"""


def m_tile_ids(tile_visits, *, G):
    T = tile_visits.shape[0]
    visit = jax.lax.iota(jnp.int32, T + G - 1)
    done = jnp.cumsum(tile_visits)[:-1][None] <= visit[:, None]
    return done.sum(axis=1, dtype=jnp.int32)
