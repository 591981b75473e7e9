"""Plan a mixed batch: which sequence, which block of queries and which keys, step by step.

Goal
    Write the tables for a launch that serves prompts, chunks of prompts and single tokens
    together, T tokens in all. Return three lists, the sequence, the q block and the turn of
    each step of the grid, and the number of steps. No visit has more than `most` turns.

Concept
    In every step, a server computes different prompts and continues different sequences. A
    launch for each, or padding to a common length, would waste most of the time. So a batch
    is *ragged*: the tokens of all sequences are in one array, and cu_q_lens says where each
    sequence begins and ends. Here are 12 tokens in blocks of bq = 4. The num_seqs = 5
    sequences of the batch have 6, 0, 1, 1 and 4 of them. Later entries of cu_q_lens and of
    lengths are garbage; the shapes fit the largest batch.

        cu_q_lens    0           6 6 7 8       12  ?  ?
        token        0 1 2 3 | 4 5 6 7 | 8 9 10 11
        sequence     0 0 0 0 | 0 0 2 3 | 4 4  4  4
        q block         0    |    1    |     2
        visits         0/0     0/1 2/1 3/1    4/2         sequence / q block

    A *visit* is one sequence in one q block that has tokens of it, as in 4_grouped_matmul,
    with sequences instead of groups. A sequence without tokens, or past num_seqs, has none.

    A group has one block of weights. A sequence has keys, in pages, and a visit goes through
    them in *turns* of bkv keys. How many turns? `lengths` counts all tokens of a sequence,
    including those of this batch, so its last query sees lengths keys. A visit that ends
    before its sequence's last token needs fewer: no query of it sees the later keys. If
    sequence 0 has a length of 9, of which 6 tokens are in the batch, then with bkv = 4:

        visit   last token   keys it sees     turns
        0/0     token 3      9 - 2 = 7        0 1
        0/1     token 5      9                0 1 2

        step        0  1  2  3  4  5 ...
        sequence    0  0  0  0  0  2
        q block     0  0  1  1  1  1
        turn        0  1  0  1  2  0

    The grid gets exactly as many steps as there are turns. But the lists need a static
    length, S, that fits every batch: `listed`, which is given, repeats numbers up to such a
    length, like group_ids. For T = 768 tokens of up to B = 64 sequences, bq = 16 and at most
    8 turns a visit, S is 896, and the three lists take 10.5 KiB of SMEM.

Shapes
    name                   dtype[dims]    memory space   Ref's shape   block
    lengths                int32[B]       HBM            -             -
    cu_q_lens              int32[B + 1]   HBM            -             -
    num_seqs               int32[1]       HBM            -             -
    seqs, blocks, turns    int32[S]       HBM            -             -
    total                  int32[]        HBM            -             -

    V = pl.cdiv(T, bq) + B visits are enough for T tokens, and S = V * most for at most `most`
    turns a visit. Entries past the total are 0.

Try
    pytest -k ragged_visits          stuck?  kata hint ragged_visits

Needs     chunked_prefill, group_metadata
Read on   Ragged Paged Attention, https://arxiv.org/abs/2604.15464
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Int32


def ragged_visits_spec(
    lengths: Int32[Array, "B"],
    cu_q_lens: Int32[Array, "B+1"],
    num_seqs: Int32[Array, "1"],
    *,
    T: int,
    bq: int,
    bkv: int,
    most: int,
) -> tuple[Int32[Array, "S"], Int32[Array, "S"], Int32[Array, "S"], Int32[Array, ""]]:
    """What to return, computed the long way: mark all triples that need a step, and list them."""
    B, blocks = len(lengths), pl.cdiv(T, bq)
    seq = jnp.arange(B)[:, None, None]
    block, turn = jnp.arange(blocks)[None, :, None], jnp.arange(most)[None, None, :]
    first = jnp.maximum(cu_q_lens[seq], block * bq)
    last = jnp.minimum(cu_q_lens[seq + 1], (block + 1) * bq) - 1
    seen = lengths[seq] - (cu_q_lens[seq + 1] - 1 - last)
    needed = (seq < num_seqs[0]) & (first <= last) & (turn * bkv < seen)
    marks = jnp.nonzero(needed, size=(blocks + B) * most, fill_value=0)
    seqs, blocks, turns = (mark.astype(jnp.int32) for mark in marks)
    return seqs, blocks, turns, jnp.sum(needed, dtype=jnp.int32)


def ragged_visits(
    lengths: Int32[Array, "B"],
    cu_q_lens: Int32[Array, "B+1"],
    num_seqs: Int32[Array, "1"],
    *,
    T: int,
    bq: int,
    bkv: int,
    most: int,
) -> tuple[Int32[Array, "S"], Int32[Array, "S"], Int32[Array, "S"], Int32[Array, ""]]:
    """Return the sequence, the q block and the turn of each step, and the number of steps."""
    # BEGIN SOLUTION
    B = len(lengths)
    V = pl.cdiv(T, bq) + B
    starts, ends = cu_q_lens[:-1], cu_q_lens[1:]
    some = (jnp.arange(B) < num_seqs[0]) & (starts < ends)
    counts = jnp.where(some, pl.cdiv(ends, bq) - starts // bq, 0)
    seq, within = listed(counts, V)
    block = starts[seq] // bq + within

    seen = lengths[seq] - jnp.maximum(ends[seq] - (block + 1) * bq, 0)
    counts = jnp.where(jnp.arange(V) < jnp.sum(counts), pl.cdiv(seen, bkv), 0)
    visit, turn = listed(counts, V * most)
    total = jnp.sum(counts)
    used = jnp.arange(V * most) < total
    seqs, blocks, turns = (jnp.where(used, x, 0) for x in (seq[visit], block[visit], turn))
    return seqs, blocks, turns, total
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def listed(counts, length):
    """Write number i counts[i] times, and beside it 0, 1, ...: two lists, int32[length] each.

    listed([2, 0, 3], 5) is [0, 0, 2, 2, 2] and [0, 1, 0, 1, 2].
    """
    owner = jnp.repeat(jnp.arange(len(counts)), counts, total_repeat_length=length)
    return owner, jnp.arange(length) - (jnp.cumsum(counts) - counts)[owner]


def ragged_visits_inputs(key, *, B, T, bq, bkv, most, edge, dtype):
    """B - 2 sequences, two of them prompts; garbage behind them. `edge` moves their first tokens.

    Lengths: a turn, a turn and a key, all turns, and random ones.
    """
    length_key, order_key = jax.random.split(key)
    seqs = B - 2
    new = jnp.ones(seqs, jnp.int32).at[0].set(0).at[1].set(edge)
    new = new.at[2].set(T // 2 - edge).at[3].set(0)
    new = new.at[3].set(T - jnp.sum(new))
    lengths = jax.random.randint(length_key, (seqs,), 1, most * bkv + 1)
    lengths = lengths.at[4:7].set(jnp.array([bkv, bkv + 1, most * bkv])[: max(0, seqs - 4)])
    lengths = jnp.maximum(lengths, new).at[2].set(new[2])
    order = jax.random.permutation(order_key, seqs)
    new, lengths = new[order], lengths[order]
    garbage = T + bkv * jnp.array([1, 9])
    cu_q_lens = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(new), garbage])
    lengths = jnp.pad(lengths, (0, 2), constant_values=most * bkv)
    return lengths.astype(jnp.int32), cu_q_lens.astype(jnp.int32), jnp.array([seqs], jnp.int32)


def test_ragged_visits(hidden_case):
    hidden_case.grade(ragged_visits)
