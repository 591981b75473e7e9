"""Attend for a mixed batch: prompts, chunks of prompts and single tokens, in one launch.

Goal
    The queries of all sequences of a batch lie one after another in q, and ragged_visits has
    listed the steps of the grid. Write the part of the kernel after a step's pages have
    arrived: which keys does each row see, and which rows of the block may this visit store?

Concept
    A visit computes a whole block of bq tokens, for one of the sequences that have tokens in
    it. The softmax of its other rows is garbage, but they belong to somebody: the visits
    before and after this one.

        q block 1        visit 0/1      visit 2/1      visit 3/1
        token 4  seq 0   stores         -              -
        token 5  seq 0   stores         -              -
        token 6  seq 2   -              stores         -
        token 7  seq 3   -              -              stores

    So a visit stores the rows of its sequence, and leaves the others as they are, like
    masked_store. And a row's mask depends on its *position*: its number within its sequence,
    counted from the sequence's first token, which may have been computed long ago.

    Each step is a turn of a visit, over `pages` pages. While it is computed, the pages of the
    next step are copied. This part is given, and works as in paged_attention_dma. It copies
    pages only up to the last key that the visit's last token sees: the first `end` rows of k
    and v. The rest of the slot holds garbage or NaN, and 0 * NaN is NaN. A turn is the last
    one of its visit if end <= bkv.

    `lengths` counts all tokens of a sequence, including those of this batch. So its last
    query is at position lengths - 1. Sequences may share pages: a common prefix is stored
    once, and their tables name the same pages.

    With 60 sequences that continue, about 2000 tokens long, and two prompts of 236 and 472
    tokens, a launch moves 533 MiB and takes 733 µs on a v5e, at 93 % of HBM's bandwidth.
    XLA's program for the spec, which reads all slots, moves 48.5 GiB.

Shapes
    name            dtype[dims]                        memory space   Ref's shape       block
    lengths_ref     int32[B]                           SMEM           (B,)              whole
    tables_ref      int32[B, n]                        SMEM           (B, n)            whole
    cu_q_lens_ref   int32[B + 1]                       SMEM           (B + 1,)          whole
    seqs_ref        int32[S]                           SMEM           (S,)              whole
    blocks_ref      int32[S]                           SMEM           (S,)              whole
    turns_ref       int32[S]                           SMEM           (S,)              whole
    q_ref, o_ref    q.dtype[G, N, D]                   VMEM           (G, bq*R, D)      (0, b, 0)
    pages_hbm       q.dtype[P, 2, G, page, D]          HBM            (P, 2, G, ...)    whole
    kv_ref          q.dtype[2, pages, 2, G, page, D]   VMEM scratch   (2, pages, ...)   -
    sems            dma semaphore[2]                   SMEM scratch   (2,)              -
    m_ref, l_ref    float32[G, bq * R, 128]            VMEM scratch   (G, bq*R, 128)    -
    acc_ref         float32[G, bq * R, D]              VMEM scratch   (G, bq*R, D)      -

    G heads of keys have R heads of queries each, and D numbers. N = tokens * R: row n of q is
    token n // R. b = blocks[s]. k[g, i] is key i of the turn, for head g.

Try
    pytest -k ragged_paged_attention          stuck?  kata hint ragged_paged_attention

Needs     ragged_visits, paged_attention_dma, masked_store
Read on   Ragged Paged Attention, https://arxiv.org/abs/2604.15464
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def ragged_paged_attention_spec(
    lengths: Int32[Array, "B"],
    tables: Int32[Array, "B n"],
    cu_q_lens: Int32[Array, "B+1"],
    num_seqs: Int32[Array, "1"],
    q: Float[Array, "G N D"],
    kv_pages: Float[Array, "P 2 G page D"],
    *,
    R: int,
) -> Float[Array, "G N D"]:
    """The required result, in plain jax.numpy: over the slots of all sequences."""
    G, N, D = q.shape
    token = jnp.arange(N)[:, None] // R
    real = jnp.arange(len(lengths)) < num_seqs[0]
    own = real & (cu_q_lens[:-1] <= token) & (token < cu_q_lens[1:])
    kv = jnp.transpose(kv_pages[tables], (2, 3, 0, 1, 4, 5)).reshape(2, G, len(lengths), -1, D)
    slot = jnp.arange(kv.shape[3])
    kv = jnp.where((real[:, None] & (slot < lengths[:, None]))[..., None], kv, 0)
    position = lengths - cu_q_lens[1:] + token
    seen = (own[..., None] & (slot <= position[..., None])).reshape(N, -1)
    k, v = kv.reshape(2, G, -1, D)
    s = jnp.where(seen, jnp.einsum("gnd,gsd->gns", q, k) * D**-0.5, -jnp.inf)
    return jnp.einsum("gns,gsd->gnd", jax.nn.softmax(s, axis=-1), v)


def ragged_paged_attention_kernel(
    lengths_ref, tables_ref, cu_q_lens_ref, seqs_ref, blocks_ref, turns_ref,
    q_ref, pages_hbm, o_ref, kv_ref, sems, m_ref, l_ref, acc_ref, *, R,
):  # fmt: skip
    bq, D, step = q_ref.shape[1] // R, q_ref.shape[2], pl.program_id(0)
    seq, block, turn = seqs_ref[step], blocks_ref[step], turns_ref[step]
    tables = (lengths_ref, tables_ref, cu_q_lens_ref, seqs_ref, blocks_ref, turns_ref)
    end = bring_pages(*tables, pages_hbm, kv_ref, sems, bq=bq)  # rows of k and v that it sees

    @pl.when(turn == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    k, v = (of_heads(kv_ref[step % 2, :, n]) for n in range(2))
    bkv = k.shape[1]
    # BEGIN SOLUTION
    token = block * bq + jax.lax.broadcasted_iota(jnp.int32, (bq * R, 1), 0) // R
    position = lengths_ref[seq] - cu_q_lens_ref[seq + 1] + token
    key = turn * bkv + jax.lax.broadcasted_iota(jnp.int32, (1, bkv), 1)
    there = jax.lax.broadcasted_iota(jnp.int32, (bkv, 1), 0) < end
    s = jnp.where(key <= position, scores_of_heads(q_ref, k), MASK_VALUE)
    attend_by_heads(s, jnp.where(there, v, 0), m_ref, l_ref, acc_ref)

    @pl.when(end <= bkv)
    def _():
        own = (cu_q_lens_ref[seq] <= token) & (token < cu_q_lens_ref[seq + 1])
        o = (acc_ref[...] / spread(l_ref[...], D)).astype(o_ref.dtype)
        o_ref[...] = jnp.where(own, o, o_ref[...])

    # END SOLUTION


def ragged_paged_attention(
    lengths: Int32[Array, "B"],
    tables: Int32[Array, "B n"],
    cu_q_lens: Int32[Array, "B+1"],
    num_seqs: Int32[Array, "1"],
    q: Float[Array, "G N D"],
    kv_pages: Float[Array, "P 2 G page D"],
    *,
    R: int = 4,
    bq: int = 32,
    pages: int = 16,
) -> Float[Array, "G N D"]:
    """Launch: a step for each turn of each visit, as many as there are."""
    (G, N, D), page = q.shape, kv_pages.shape[3]
    V = pl.cdiv(N // R, bq) + len(lengths)
    seqs, blocks, count = visits(cu_q_lens, num_seqs, bq=bq, V=V)
    end = keys(lengths[seqs], cu_q_lens[seqs + 1], blocks, bq)
    end = jnp.where(jnp.arange(V) < count, end, 0)
    *steps, total = turns(seqs, blocks, pl.cdiv(end, pages * page), pl.cdiv(tables.shape[1], pages))
    block = pl.BlockSpec((G, bq * R, D), lambda s, *refs: (0, refs[4][s], 0))
    return pl.pallas_call(
        jax.tree_util.Partial(ragged_paged_attention_kernel, R=R),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=6,
            grid=(total,),
            in_specs=[block, pl.BlockSpec(memory_space=pltpu.HBM)],
            out_specs=block,
            scratch_shapes=[
                pltpu.VMEM((2, pages, *kv_pages.shape[1:]), kv_pages.dtype),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.VMEM((G, bq * R, LANES), jnp.float32),
                pltpu.VMEM((G, bq * R, LANES), jnp.float32),
                pltpu.VMEM((G, bq * R, D), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        name="ragged_paged_attention",
    )(lengths, tables, cu_q_lens, *steps, q, kv_pages)


# ---- Given: inputs and helpers. ----


def visits(cu_q_lens, num_seqs, *, bq, V):
    """Sequence and q block of each visit, int32[V] each, in order; and how many there are.

    Entries past that number aren't read.
    """
    starts, ends = cu_q_lens[:-1], cu_q_lens[1:]
    some = (jnp.arange(len(starts)) < num_seqs[0]) & (starts < ends)
    blocks = jnp.where(some, (ends + bq - 1) // bq - starts // bq, 0)
    seqs = jnp.repeat(jnp.arange(len(starts)), blocks, total_repeat_length=V)
    earlier = jnp.cumsum(blocks) - blocks
    return seqs, starts[seqs] // bq + jnp.arange(V) - earlier[seqs], jnp.sum(blocks)


def bring_pages(
    lengths_ref, tables_ref, cu_q_lens_ref, seqs_ref, blocks_ref, turns_ref,
    pages_hbm, kv_ref, sems, *, bq,
):  # fmt: skip
    """Wait for the pages of this step, and start to copy those of the next one.

    Returns how many rows of this turn's keys the last token of the visit sees; int32 scalar.
    """
    _, pages, _, _, page, _ = kv_ref.shape
    step, steps = pl.program_id(0), pl.num_programs(0)

    def end_of(step):
        end = cu_q_lens_ref[seqs_ref[step] + 1]
        return keys(lengths_ref[seqs_ref[step]], end, blocks_ref[step], bq)

    def copies(step, act):
        first = turns_ref[step] * pages

        @pl.loop(0, jnp.minimum(pl.cdiv(end_of(step), page) - first, pages))
        def _(i):
            source = pages_hbm.at[tables_ref[seqs_ref[step], first + i]]
            act(pltpu.make_async_copy(source, kv_ref.at[step % 2, i], sems.at[step % 2]))

    @pl.when(step == 0)
    def _():
        copies(0, lambda copy: copy.start())

    @pl.when(step + 1 < steps)
    def _():
        copies(step + 1, lambda copy: copy.start())

    copies(step, lambda copy: copy.wait())
    return end_of(step) - turns_ref[step] * pages * page


def keys(length, q_end, block, bq):
    """How many keys the last token of a sequence's visit to a q block sees."""
    return length - jnp.maximum(q_end - (block + 1) * bq, 0)


def turns(seqs, blocks, counts, most):
    """List each visit's turns: sequence, q block and turn; and how many there are."""
    V = len(seqs)
    visit = jnp.repeat(jnp.arange(V), counts, total_repeat_length=V * most)
    turn = jnp.arange(V * most) - (jnp.cumsum(counts) - counts)[visit]
    return seqs[visit], blocks[visit], turn, jnp.sum(counts)


@functools.partial(
    jax.jit, static_argnames=("B", "N", "R", "G", "D", "P", "page", "pages", "n", "dtype")
)
def ragged_paged_attention_inputs(key, *, B, N, R, G, D, P, page, pages, n, dtype):
    """B - 2 sequences, two of them prompts; scrambled pages, NaN in unused slots."""
    seqs, tokens = B - 2, N // R
    q_key, size_key, kv_key, table_key, length_key, order_key = jax.random.split(key, 6)
    # Nothing; a token, a turn, a page and a token, a full table; a prompt, and the end of one; a
    # turn and a token.
    lengths = jax.random.randint(length_key, (seqs,), 1, n * page)
    lengths = lengths.at[:5].set(jnp.array([0, 1, pages * page, page + 1, n * page]))
    lengths = lengths.at[7:8].set(pages * page + 1)
    new = jnp.ones(seqs, jnp.int32).at[0].set(0).at[5].set((tokens - seqs + 3) // 3)
    new = new.at[6].set(0).at[6].set(tokens - jnp.sum(new.at[6].set(0)))
    lengths = lengths.at[5].set(new[5]).at[6].set(jnp.minimum(new[6] + page + 3, n * page))
    tables = jax.random.permutation(table_key, P)[: B * n].reshape(B, n).astype(jnp.int32)
    tables = tables.at[3, 0].set(tables[4, 0])  # a prefix that both have
    order = jax.random.permutation(order_key, seqs)
    new, lengths, tables = new[order], lengths[order], tables.at[:seqs].set(tables[order])
    held = jnp.zeros(P, jnp.int32).at[tables[:seqs]].max(lengths[:, None] - page * jnp.arange(n))
    size = jnp.exp(jax.random.uniform(size_key, (G, N, 1), maxval=3.5))
    q = jax.random.normal(q_key, (G, N, D)) * size
    kv = jax.random.normal(kv_key, (P, 2, G, page, D))
    # All scores of every ninth query are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    kv, q = kv.at[:, 0, ..., -1].set(16), q.at[..., -1].set(0).at[:, ::9].set(low)
    kv = jnp.where(jnp.arange(page)[:, None] < held[:, None, None, None, None], kv, jnp.nan)
    return (
        jnp.pad(lengths, (0, 2), constant_values=n * page).astype(jnp.int32),
        tables,
        jnp.concatenate([jnp.zeros(1), jnp.cumsum(new), tokens + page * jnp.array([1, 9])]).astype(
            jnp.int32
        ),
        jnp.array([seqs], jnp.int32),
        q.astype(dtype),
        kv.astype(dtype),
    )


def spread(x, width):
    """Repeat a statistic of 128 equal lanes until it is `width` lanes wide."""
    return jnp.tile(x, (*[1] * (x.ndim - 1), width // LANES))


def of_heads(x):
    """Put the pages of each head one after another: x.dtype[G, pages * page, D]."""
    pages, G, page, D = x.shape
    return x.swapaxes(0, 1).reshape(G, pages * page, D)


def scores_of_heads(q_ref, k):
    """Return the scaled scores of all heads: float32[G, bq * R, bkv]."""
    of_both = (((2,), (2,)), ((0,), (0,)))
    scale = q_ref.shape[2] ** -0.5
    return scale * jax.lax.dot_general(q_ref[...], k, of_both, preferred_element_type=jnp.float32)


def clear(m_ref, l_ref, acc_ref):
    """Before the first block: no score has been seen, and nothing has been summed."""
    m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)


def attend_by_heads(s, v, m_ref, l_ref, acc_ref):
    """One step of online softmax for all heads, with the scores s and the values v[G, bkv, D]."""
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=2, keepdims=True))
    alpha = jnp.exp(m_prev - m_next)
    p = jnp.exp(s - spread(m_next, s.shape[2]))
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=2, keepdims=True)
    of_both = (((2,), (1,)), ((0,), (0,)))
    pv = jax.lax.dot_general(p.astype(v.dtype), v, of_both, preferred_element_type=jnp.float32)
    acc_ref[...] = spread(alpha, acc_ref.shape[2]) * acc_ref[...] + pv


def test_ragged_paged_attention(hidden_case):
    hidden_case.grade(ragged_paged_attention)
