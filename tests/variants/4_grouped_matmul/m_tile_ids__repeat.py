"""repeat with a fixed length.

Stars: 3
"""


def m_tile_ids(tile_visits, *, G):
    (T,) = tile_visits.shape
    return jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=T + G - 1)
