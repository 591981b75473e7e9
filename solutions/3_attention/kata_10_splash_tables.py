"""Make splash attention's tables, one block of the mask at a time.

Goal
    Return partial_masks, block_mask, data_next and mask_next, in this order, which is
    splash_attention's, for a mask that isn't stored. Query t may see the keys from
    first[t] to last[t], and none if last[t] < first[t]. That covers packed documents,
    windows and padding. `visible` returns which of some queries may see which of some
    keys.

Concept
    splash_attention's tables were made from a mask bool[T, S]. For 8192 tokens, this
    mask takes 64 MiB. For 131,072 it takes 16 GiB, all the HBM of a v5e, to make
    tables of a few KiB. So compute one block of it at a time, and keep only the entries
    of the tables. jax.lax.scan goes through the blocks, row by row:

        block        kind        partial_masks so far        number
        (0, 0)       1           [A]                         0     A is new
        (0, 1)       0           [A]
        (1, 0)       2           [A]
        (1, 1)       1           [A]                         0     A again
        (2, 0)       1           [A, B]                      1     B is new

    kind is 0 if no query sees a key of the block, 2 if each sees all of them, else
    1. You can't tell it from the corners: a run of keys may touch none of them. Equal
    partial blocks are stored once, in the order in which they first occur.

    The ends of documents are known only when the training step runs, so the tables are
    made within jit, and the caller gives two upper limits: no row has work in more than
    `steps` blocks, and no more than P partial blocks differ. Unused masks in
    partial_masks stay 0.

    From kinds[I, J] to lists: each row keeps the blocks with work, in order, and
    the rest of its `steps` has kind 0. data_next and mask_next need an entry in
    every step, since an index map can only choose a block, not prevent its copy:

        kinds           block_mask     data_next      what is copied
        0  2  1  0      2  1           1  2           k1   k2
        0  0  0  0      0  0           3' 3'          k3   .
        0  0  0  2      2  0           3  3'          .    .

    Entries marked ' belong to steps that read nothing. Each repeats the entry of the
    next step that reads, in this row or a later one. So that copy is made early, and no
    other. After the last step that reads, they repeat its entry. If no step reads, all
    are 0. mask_next follows the same rule, but only steps of kind 1 read a mask.

Shapes
    name                               dtype[dims]        memory space   Ref's shape   block
    first, last                        int32[T]           HBM            -             -
    partial_masks                      int8[P, bq, bkv]   HBM            -             -
    block_mask, data_next, mask_next   int32[I, steps]    HBM            -             -

    I = T / bq, J = S / bkv. data_next has numbers of blocks of keys, mask_next of masks.

Try
    pytest -k splash_tables             stuck?  kata hint splash_tables

Needs     splash_attention
Read on   FlashMask, https://arxiv.org/abs/2410.01359
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int8, Int32


def splash_tables_spec(
    first: Int32[Array, "T"],
    last: Int32[Array, "T"],
    *,
    S: int,
    bq: int,
    bkv: int,
    steps: int,
    P: int,
) -> tuple[
    Int8[Array, "P bq bkv"],
    Int32[Array, "I steps"],
    Int32[Array, "I steps"],
    Int32[Array, "I steps"],
]:
    """The required tables, from the whole mask, by comparing all its blocks."""
    T = len(first)
    mask = visible(first, last, jnp.arange(T), jnp.arange(S))
    blocks = mask.reshape(T // bq, bq, S // bkv, bkv).swapaxes(1, 2).reshape(-1, bq, bkv)
    kinds = jnp.where(blocks.any((1, 2)), jnp.where(blocks.all((1, 2)), 2, 1), 0)
    equal = (blocks[:, None] == blocks[None]).all((2, 3)) & (kinds == 1)
    alike = jnp.argmax(equal, axis=1)  # the first equal block
    is_first = (kinds == 1) & (alike == jnp.arange(len(kinds)))
    number = (jnp.cumsum(is_first) - 1)[alike]
    at = jnp.nonzero(is_first, size=P, fill_value=len(kinds))[0]
    partial_masks = blocks.at[at].get(mode="fill", fill_value=False)
    by_row = (T // bq, S // bkv)
    kinds, number = kinds.reshape(by_row), number.reshape(by_row)
    block = jnp.broadcast_to(jnp.arange(by_row[1]), by_row)
    place = jnp.where(kinds > 0, jnp.cumsum(kinds > 0, axis=1) - 1, steps)

    def listed(entries):
        row = jnp.arange(by_row[0])[:, None]
        return jnp.zeros((by_row[0], steps), int).at[row, place].set(entries, mode="drop")

    block_mask, data, masks = listed(kinds), listed(block), listed(number)

    def followed(entries, reads):
        reads, entries = reads.ravel(), entries.ravel()
        later = reads[None, :] & (jnp.arange(len(reads))[:, None] <= jnp.arange(len(reads)))
        last_read = jnp.max(jnp.where(reads, jnp.arange(len(reads)), -1))
        following = jnp.where(later.any(1), jnp.argmax(later, axis=1), last_read)
        return jnp.where(reads.any(), entries[following], 0).reshape(block_mask.shape)

    tables = block_mask, followed(data, block_mask > 0), followed(masks, block_mask == 1)
    return partial_masks.astype(jnp.int8), *(table.astype(jnp.int32) for table in tables)


def read_next(entries, reads):
    """Return `entries`, with each one that isn't read replaced by the next that is.

    Both have one element for each step, row by row: int32[I, steps] and bool[I, steps].
    """
    # BEGIN SOLUTION
    step = jnp.arange(entries.size)
    read_at = jnp.where(reads.ravel(), step, -1)
    following = jax.lax.cummin(jnp.where(read_at >= 0, step, entries.size), reverse=True)
    following = jnp.minimum(following, jnp.max(read_at))
    return jnp.where(jnp.any(reads), entries.ravel()[following], 0).reshape(entries.shape)
    # END SOLUTION


def splash_tables(
    first: Int32[Array, "T"],
    last: Int32[Array, "T"],
    *,
    S: int,
    bq: int,
    bkv: int,
    steps: int,
    P: int,
) -> tuple[
    Int8[Array, "P bq bkv"],
    Int32[Array, "I steps"],
    Int32[Array, "I steps"],
    Int32[Array, "I steps"],
]:
    """Return partial_masks, block_mask, data_next and mask_next."""
    rows, columns = len(first) // bq, S // bkv
    # BEGIN SOLUTION

    def look(found, block):
        masks, count = found
        q = block // columns * bq + jnp.arange(bq)
        k = block % columns * bkv + jnp.arange(bkv)
        mask = visible(first, last, q, k)
        kind = jnp.where(jnp.any(mask), jnp.where(jnp.all(mask), 2, 1), 0)
        equal = jnp.all(masks == mask, axis=(1, 2))
        number = jnp.where(jnp.any(equal), jnp.argmax(equal), count)
        masks = masks.at[jnp.where(kind == 1, number, P)].set(mask, mode="drop")
        count = jnp.where(kind == 1, jnp.maximum(count, number + 1), count)
        return (masks, count), (kind, number)

    nothing = jnp.zeros((P, bq, bkv), bool), 0
    (masks, _), found = jax.lax.scan(look, nothing, jnp.arange(rows * columns))
    kinds, numbers = (x.reshape(rows, columns).astype(jnp.int32) for x in found)
    order = jnp.argsort(kinds == 0, axis=1, stable=True)[:, :steps].astype(jnp.int32)
    block_mask = jnp.take_along_axis(kinds, order, axis=1)
    mask_next = jnp.take_along_axis(numbers, order, axis=1)
    # END SOLUTION
    return (
        masks.astype(jnp.int8),
        block_mask,
        read_next(order, block_mask > 0),
        read_next(mask_next, block_mask == 1),
    )


# ---- Given: inputs and helpers. ----


def splash_tables_inputs(key, *, T, S, bq, bkv, pattern, dtype):
    """Make runs of keys: causal, a window, blocks of every kind, documents, or whole blocks."""
    shift_key, width_key, inside_key, cut_key = jax.random.split(key, 4)
    t = jnp.arange(T)
    if pattern == 0:  # keys go on after these queries
        first, last = 0 * t, t + jax.random.randint(shift_key, (), 0, bkv)
    elif pattern == 1:
        first, last = t - jax.random.randint(width_key, (), S // 3, S // 2), t
    elif pattern == 2:
        first, last = rows_of_every_kind(inside_key, t, S, bq, bkv)
    elif pattern == 4:  # two documents that see all of themselves: no block is partial
        cut = bkv * jax.random.randint(cut_key, (), 1, T // bkv)
        first, last = jnp.where(t < cut, 0, cut), jnp.where(t < cut, cut - 1, S)
    else:  # packed documents; behind the last one is padding, which sees nothing
        cuts = jnp.sort(jax.random.randint(cut_key, (2,), bq // 2, T - 2 * bq))
        end = T - bq - bq // 2
        first = jnp.max(jnp.where(cuts <= t[:, None], cuts, 0), axis=1)
        first, last = jnp.where(t < end, first, S), t
    return jnp.maximum(first, 0).astype(jnp.int32), jnp.minimum(last, S - 1).astype(jnp.int32)


def rows_of_every_kind(key, t, S, bq, bkv):
    """Make runs for rows of blocks, some of them without work or with misleading corners.

    Row 0 sees all keys but the first block, row 1 none. In row 2, all queries but some in the
    middle see three whole blocks. In row 3, one query sees a few keys inside a block. The next
    rows repeat these four.
    """
    row_key, start_key, length_key = jax.random.split(key, 3)
    row, inside = t // bq % 4, t % bq
    one = jax.random.randint(row_key, (), bq // 4, bq // 2)
    start = 2 * bkv + jax.random.randint(start_key, (), 1, bkv // 2)
    stop = start + jax.random.randint(length_key, (), 1, bkv // 4)
    few, hidden = inside == one, (inside >= one) & (inside < one + bq // 4)
    first = jnp.select([row == 0, row == 2, row == 3], [bkv, S - 3 * bkv, start], S)
    last = jnp.select([row == 3], [stop], S - 1)
    nothing = (row == 1) | ((row == 2) & hidden) | ((row == 3) & ~few)
    return jnp.where(nothing, S, first), last


def visible(first, last, q, k):
    """Return bool[len(q), len(k)]: which of the queries q may see which of the keys k."""
    return (first[q][:, None] <= k) & (k <= last[q][:, None])


def test_splash_tables(hidden_case):
    hidden_case.grade(splash_tables)
