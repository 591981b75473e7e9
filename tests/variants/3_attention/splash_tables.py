"""Right kernels of splash_tables in other styles: see docs/authoring.md."""

# ---- fori_loop ----

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
    return masks, kind, read_next(data, kind > 0), read_next(number, kind == 1)


# ---- rows_of_blocks ----

"""Looks at a row of blocks at once; numbers the partial blocks of the row one after another.

Stars: 3
"""


def read_next(entries, reads):
    def step(following, one):
        entry, read = one
        following = jnp.where(read, entry, following)
        return following, following

    flat = entries.ravel(), reads.ravel()
    at_last = flat[0][jnp.max(jnp.where(flat[1], jnp.arange(entries.size), 0))]
    at_last = jnp.where(reads.any(), at_last, 0)
    _, filled = jax.lax.scan(step, at_last, flat, reverse=True)
    return filled.reshape(entries.shape)


def splash_tables(first, last, *, S, bq, bkv, steps, P):
    J = S // bkv

    def number_one(carry, block):
        masks, used = carry
        partial = block.any() & ~block.all()
        same = (masks == block).all((1, 2))
        number = jnp.where(same.any(), same.argmax(), used)
        masks = jax.lax.cond(partial, lambda: masks.at[number].set(block), lambda: masks)
        return (masks, used + (partial & ~same.any())), number

    def row(carry, i):
        strip = visible(first, last, i * bq + jnp.arange(bq), jnp.arange(S))
        blocks = strip.reshape(bq, J, bkv).swapaxes(0, 1)
        kinds = blocks.any((1, 2)).astype(jnp.int32) + blocks.all((1, 2))
        carry, numbers = jax.lax.scan(number_one, carry, blocks)
        work = jnp.nonzero(kinds, size=steps, fill_value=J)[0]
        listed = (
            x.at[work].get(mode="fill", fill_value=0) for x in (kinds, jnp.arange(J), numbers)
        )
        return carry, tuple(x.astype(jnp.int32) for x in listed)

    start = jnp.zeros((P, bq, bkv), bool), jnp.int32(0)
    (masks, _), (kinds, data, numbers) = jax.lax.scan(row, start, jnp.arange(len(first) // bq))
    masks = masks.astype(jnp.int8)
    return masks, kinds, read_next(data, kinds > 0), read_next(numbers, kinds == 1)
