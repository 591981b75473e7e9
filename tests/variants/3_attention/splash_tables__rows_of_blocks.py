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
    return kinds, read_next(data, kinds > 0), read_next(numbers, kinds == 1), masks.astype(jnp.int8)
