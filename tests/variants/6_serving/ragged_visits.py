"""Right kernels of ragged_visits in other styles: see docs/authoring.md."""

# ---- drawn ----

"""Marks all triples that need a step, and lists them.

Stars: 3
"""


def ragged_visits(lengths, cu_q_lens, num_seqs, *, T, bq, bkv, most):
    B, blocks = len(lengths), (T + bq - 1) // bq
    seq, block, turn = jnp.indices((B, blocks, most), sparse=True)
    starts, ends = cu_q_lens[:-1, None, None], cu_q_lens[1:, None, None]
    touches = jnp.maximum(starts, block * bq) < jnp.minimum(ends, (block + 1) * bq)
    seen = lengths[:, None, None] - jnp.maximum(ends - (block + 1) * bq, 0)
    needed = (seq < num_seqs[0]) & touches & (turn * bkv < seen)
    marks = jnp.nonzero(needed, size=(blocks + B) * most, fill_value=0)
    return *(mark.astype(jnp.int32) for mark in marks), jnp.sum(needed, dtype=jnp.int32)


# ---- searched ----

"""Finds each step's visit, and each visit's sequence, by binary search in running sums.

Stars: 3
"""


def ragged_visits(lengths, cu_q_lens, num_seqs, *, T, bq, bkv, most):
    B = lengths.shape[0]
    V = pl.cdiv(T, bq) + B
    starts, ends = cu_q_lens[:B], cu_q_lens[1:]
    last = (ends - 1) // bq
    per_seq = jnp.where((ends > starts) & (jnp.arange(B) < num_seqs), last - starts // bq + 1, 0)
    sums = jnp.cumsum(per_seq)
    number = jnp.arange(V)
    seq = jnp.minimum(jnp.searchsorted(sums, number, side="right"), B - 1)
    block = starts[seq] // bq + number - sums[seq] + per_seq[seq]
    hidden = jnp.maximum(ends[seq] - (block + 1) * bq, 0)
    per_visit = jnp.where(number < sums[-1], (lengths[seq] - hidden + bkv - 1) // bkv, 0)
    ends_of_visits = jnp.cumsum(per_visit)
    step = jnp.arange(V * most)
    visit = jnp.minimum(jnp.searchsorted(ends_of_visits, step, side="right"), V - 1)
    turn = step - ends_of_visits[visit] + per_visit[visit]
    tables = (seq[visit], block[visit], turn)
    live = step < ends_of_visits[-1]
    return *(jnp.where(live, t, 0).astype(jnp.int32) for t in tables), ends_of_visits[-1]
