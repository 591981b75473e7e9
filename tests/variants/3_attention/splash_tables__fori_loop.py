"""A loop that writes the tables as it goes; what is read next is found by searching.

Stars: 3
"""


def read_next(entries, reads):
    flat, steps = reads.ravel(), jnp.arange(reads.size)
    count = jnp.cumsum(flat)  # how many steps read something, up to and including each
    where = jnp.searchsorted(count, jnp.minimum(count - flat + 1, count[-1]))
    found = entries.ravel()[jnp.where(count[-1] > 0, where, steps)]
    return jnp.where(count[-1] > 0, found, 0).reshape(entries.shape)


def splash_tables(first, last, *, S, bq, bkv, steps, P):
    rows, columns = len(first) // bq, S // bkv

    def add(b, carry):
        masks, used, filled, tables = carry
        i, j = jnp.divmod(b, columns)
        mask = visible(first, last, i * bq + jnp.arange(bq), j * bkv + jnp.arange(bkv))
        some, every = mask.any(), mask.all()
        partial = some & ~every
        same = (masks == mask.astype(jnp.int8)).all((1, 2))
        number = jnp.where(same.any(), same.argmax(), used)
        kept = jax.lax.dynamic_update_index_in_dim(masks, mask.astype(jnp.int8), number, 0)
        masks = jax.lax.select(jnp.broadcast_to(partial, masks.shape), kept, masks)
        used += partial & ~same.any()
        entry = jnp.stack([some.astype(int) + every, j, number])
        place = jnp.where(some, filled[i], steps)
        tables = tables.at[:, i, place].set(entry, mode="drop")
        return masks, used, filled.at[i].add(some), tables

    start = (
        jnp.zeros((P, bq, bkv), jnp.int8),
        0,
        jnp.zeros(rows, jnp.int32),
        jnp.zeros((3, rows, steps), jnp.int32),
    )
    masks, _, _, (kind, data, number) = jax.lax.fori_loop(0, rows * columns, add, start)
    return kind, read_next(data, kind > 0), read_next(number, kind == 1), masks
