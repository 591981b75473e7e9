"""Write the new keys into their pages in the same kernel that reads the pages.

Goal
    The kernel of ragged_paged_attention now also gets the keys and values of the new tokens,
    which aren't in the cache yet. Write the order of its copies: when does a step read pages,
    insert new rows, write pages back, and start to read the pages of the next step?

Concept
    With separate kernels for the cache and for attention, the first reads and writes each
    page that gets a new row, and the second reads it again. A fused kernel has that page in
    VMEM already: it inserts the new row there, and writes the page back while the attention
    is computed. This saves one launch and the extra reads.

    But now two copies access the same bytes of HBM, and only your code orders them. A prompt
    of 40 tokens makes three visits with blocks of 16. All of its tokens are in the same
    pages, so each visit reads pages that the visit before has written:

        step s       | bring X | insert | send X ......... wait |
        step s + 1            | bring X ?                       | bring X !

    If the copy of step s + 1 starts at "?", before the computation of step s as usual, it
    reads page X as it was, or half of each version. It will often be lucky. At "!" it is
    correct, but nothing overlaps. So the order must depend on the next step. A step of
    another sequence can't need these pages: sequences share only full pages, and full pages
    aren't written. The next turn of the same visit reads other pages, too. In a batch, most
    next steps are of one of these two kinds.

    There is one array for the cache: the result reuses the memory of the input, which the
    caller donates. pages_hbm is the Ref of the result and starts with the input's content.
    Pages that the kernel doesn't write stay unchanged.

    The batch of ragged_paged_attention takes 806 µs on a v5e, and reading alone took 733 µs.
    The rest is 29 MiB of writes, and visits of prompts that wait for each other. A separate
    kernel for writing would read and write 58 MiB more and add one launch. If every step read
    its pages late, the kernel would take 1.14 ms.

Shapes
    name            dtype[dims]                        memory space   Ref's shape       block
    lengths_ref     int32[B]                           SMEM           (B,)              whole
    tables_ref      int32[B, n]                        SMEM           (B, n)            whole
    cu_q_lens_ref   int32[B + 1]                       SMEM           (B + 1,)          whole
    seqs_ref        int32[S]                           SMEM           (S,)              whole
    blocks_ref      int32[S]                           SMEM           (S,)              whole
    turns_ref       int32[S]                           SMEM           (S,)              whole
    q_ref, o_ref    q.dtype[G, N, D]                   VMEM           (G, bq*R, D)      (0, b, 0)
    new_ref         q.dtype[2, G, T, D]                VMEM           (2, G, bq, D)     (0, 0, b, 0)
    pages_in        q.dtype[P, 2, G, page, D]          HBM            (P, 2, G, ...)    whole
    pages_hbm       q.dtype[P, 2, G, page, D]          HBM            (P, 2, G, ...)    whole
    kv_ref          q.dtype[2, pages, 2, G, page, D]   VMEM scratch   (2, pages, ...)   -
    sems            dma semaphore[3]                   SMEM scratch   (3,)              -
    m_ref, l_ref    float32[G, bq * R, 128]            VMEM scratch   (G, bq*R, 128)    -
    acc_ref         float32[G, bq * R, D]              VMEM scratch   (G, bq*R, D)      -

    b = blocks[s]. The kernel gives you one function for each part of a step.

Try
    pytest -k rpa_fused_write          stuck?  kata hint rpa_fused_write

Needs     ragged_paged_attention, kv_cache_write
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


def rpa_fused_write_spec(
    lengths: Int32[Array, "B"],
    tables: Int32[Array, "B n"],
    cu_q_lens: Int32[Array, "B+1"],
    num_seqs: Int32[Array, "1"],
    q: Float[Array, "G N D"],
    kv_new: Float[Array, "2 G T D"],
    kv_pages: Float[Array, "P 2 G page D"],
    *,
    R: int,
) -> tuple[Float[Array, "G N D"], Float[Array, "P 2 G page D"]]:
    """The required result, in plain jax.numpy: the attention, and the cache after it."""
    (G, N, D), page = q.shape, kv_pages.shape[3]
    token, real = jnp.arange(N // R), jnp.arange(len(lengths)) < num_seqs[0]
    own = real & (cu_q_lens[:-1] <= token[:, None]) & (token[:, None] < cu_q_lens[1:])
    seq = jnp.argmax(own, axis=1)
    position = (lengths - cu_q_lens[1:])[seq] + token
    rows = tables[seq, position // page], slice(None), slice(None), position % page
    kv_pages = kv_pages.at[rows].set(jnp.moveaxis(kv_new, 2, 0))
    kv = jnp.transpose(kv_pages[tables], (2, 3, 0, 1, 4, 5)).reshape(2, G, len(lengths), -1, D)
    slot = jnp.arange(kv.shape[3])
    kv = jnp.where((real[:, None] & (slot < lengths[:, None]))[..., None], kv, 0)
    seen = own[..., None] & (slot <= position[:, None, None])
    seen = jnp.repeat(seen.reshape(N // R, -1), R, axis=0)
    k, v = kv.reshape(2, G, -1, D)
    s = jnp.where(seen, jnp.einsum("gnd,gsd->gns", q, k) * D**-0.5, -jnp.inf)
    return jnp.einsum("gns,gsd->gnd", jax.nn.softmax(s, axis=-1), v), kv_pages


def rpa_fused_write_step(step, steps, same, writes, bring, insert, send, attend):
    """One whole step: copies are started and waited for only here.

    `bring(step)` copies all pages of a step from HBM to its slot. `send` copies those pages of this
    step that get new rows from the slot to HBM. Both have .start() and .wait(). `insert()` puts the
    new rows into the pages in the slot; `attend()` computes with the slot. `writes` says whether
    this step has new rows, `same` whether the next step reads the same pages of the same
    sequence; both are traced.
    """
    # BEGIN SOLUTION
    reads_again = writes & same
    pl.when(step == 0)(bring(0).start)
    pl.when((step + 1 < steps) & ~reads_again)(bring(step + 1).start)
    bring(step).wait()

    @pl.when(writes)
    def _():
        insert()
        send.start()

    attend()
    pl.when(writes)(send.wait)
    pl.when((step + 1 < steps) & reads_again)(bring(step + 1).start)
    # END SOLUTION


@functools.partial(jax.jit, static_argnames=("R", "bq", "pages"), donate_argnames=("kv_pages",))
def rpa_fused_write(
    lengths: Int32[Array, "B"],
    tables: Int32[Array, "B n"],
    cu_q_lens: Int32[Array, "B+1"],
    num_seqs: Int32[Array, "1"],
    q: Float[Array, "G N D"],
    kv_new: Float[Array, "2 G T D"],
    kv_pages: Float[Array, "P 2 G page D"],
    *,
    R: int = 4,
    bq: int = 32,
    pages: int = 16,
) -> tuple[Float[Array, "G N D"], Float[Array, "P 2 G page D"]]:
    """Launch: a step for each turn of each visit, as many as there are."""
    (G, N, D), page = q.shape, kv_pages.shape[3]
    V = pl.cdiv(N // R, bq) + len(lengths)
    seqs, blocks, count = visits(cu_q_lens, num_seqs, bq=bq, V=V)
    end = keys(lengths[seqs], cu_q_lens[seqs + 1], blocks, bq)
    end = jnp.where(jnp.arange(V) < count, end, 0)
    *steps, total = turns(seqs, blocks, pl.cdiv(end, pages * page), pl.cdiv(tables.shape[1], pages))
    block = pl.BlockSpec((G, bq * R, D), lambda s, *refs: (0, refs[4][s], 0))
    new = pl.BlockSpec((2, G, bq, D), lambda s, *refs: (0, 0, refs[4][s], 0))
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    o, kv_pages = pl.pallas_call(
        jax.tree_util.Partial(rpa_fused_write_kernel, R=R),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=6,
            grid=(total,),
            in_specs=[block, new, hbm],
            out_specs=(block, hbm),
            scratch_shapes=[
                pltpu.VMEM((2, pages, *kv_pages.shape[1:]), kv_pages.dtype),
                pltpu.SemaphoreType.DMA((3,)),
                pltpu.VMEM((G, bq * R, LANES), jnp.float32),
                pltpu.VMEM((G, bq * R, LANES), jnp.float32),
                pltpu.VMEM((G, bq * R, D), jnp.float32),
            ],
        ),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (q, kv_pages)],
        input_output_aliases={8: 1},
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        name="rpa_fused_write",
    )(lengths, tables, cu_q_lens, *steps, q, kv_new, kv_pages)
    return o, kv_pages


# ---- Given: inputs and helpers. ----


def rpa_fused_write_kernel(
    lengths_ref, tables_ref, cu_q_lens_ref, seqs_ref, blocks_ref, turns_ref,
    q_ref, new_ref, pages_in, o_ref, pages_hbm, kv_ref, sems, m_ref, l_ref, acc_ref, *, R,
):  # fmt: skip
    bq = q_ref.shape[1] // R
    _, pages, _, _, page, D = kv_ref.shape
    bkv = pages * page
    step, steps = pl.program_id(0), pl.num_programs(0)
    seq, block, turn, slot = seqs_ref[step], blocks_ref[step], turns_ref[step], step % 2
    q_start, q_end = cu_q_lens_ref[seq], cu_q_lens_ref[seq + 1]
    # Slots of this turn: of the q block's token 0, and of the visit's first and last new token.
    row_0 = lengths_ref[seq] - q_end + block * bq - turn * bkv
    first = row_0 + jnp.maximum(q_start - block * bq, 0)
    end = keys(lengths_ref[seq], q_end, block, bq) - turn * bkv

    def bring(step):
        seq, turn = seqs_ref[step], turns_ref[step]
        end = keys(lengths_ref[seq], cu_q_lens_ref[seq + 1], blocks_ref[step], bq)

        def copy(i):
            source = pages_hbm.at[tables_ref[seq, turn * pages + i]]
            return pltpu.make_async_copy(source, kv_ref.at[step % 2, i], sems.at[step % 2])

        return Copies(copy, 0, jnp.minimum(pl.cdiv(end, page) - turn * pages, pages))

    def send_page(i):
        target = pages_hbm.at[tables_ref[seq, turn * pages + i]]
        return pltpu.make_async_copy(kv_ref.at[slot, i], target, sems.at[2])

    send = Copies(send_page, jnp.maximum(first, 0) // page, pl.cdiv(jnp.minimum(end, bkv), page))

    def insert():
        @pl.loop(send.first, send.stop)
        def _(i):
            put(new_ref, kv_ref.at[slot, i], row_0 - i * page, first - i * page, end - i * page)

    def attend():
        k, v = (of_heads(kv_ref[slot, :, n]) for n in range(2))
        token = block * bq + jax.lax.broadcasted_iota(jnp.int32, (bq * R, 1), 0) // R
        key = jax.lax.broadcasted_iota(jnp.int32, (1, bkv), 1)
        there = jax.lax.broadcasted_iota(jnp.int32, (bkv, 1), 0) < end
        seen = key <= row_0 + token - block * bq
        s = jnp.where(seen, scores_of_heads(q_ref, k), MASK_VALUE)
        attend_by_heads(s, jnp.where(there, v, 0), m_ref, l_ref, acc_ref)

        @pl.when(end <= bkv)
        def _():
            own = (q_start <= token) & (token < q_end)
            o = (acc_ref[...] / spread(l_ref[...], D)).astype(o_ref.dtype)
            o_ref[...] = jnp.where(own, o, o_ref[...])

    @pl.when(turn == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    same = (seqs_ref[step + 1] == seq) & (turns_ref[step + 1] == turn)
    rpa_fused_write_step(step, steps, same, first < bkv, bring, insert, send, attend)


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
def rpa_fused_write_inputs(key, *, B, N, R, G, D, P, page, pages, n, dtype):
    """B - 2 sequences, two of them prompts; scrambled pages, NaN in slots without old tokens."""
    seqs, tokens = B - 2, N // R
    q_key, size_key, kv_key, table_key, length_key, order_key, new_key = jax.random.split(key, 7)
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
    held = (
        jnp.zeros(P, jnp.int32)
        .at[tables[:seqs]]
        .max((lengths - new)[:, None] - page * jnp.arange(n))
    )
    size = jnp.exp(jax.random.uniform(size_key, (G, N, 1), maxval=3.5))
    q = jax.random.normal(q_key, (G, N, D)) * size
    kv = jax.random.normal(kv_key, (P, 2, G, page, D))
    # All scores of every ninth query are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    kv, q = kv.at[:, 0, ..., -1].set(16), q.at[..., -1].set(0).at[:, ::9].set(low)
    kv_new = jax.random.normal(new_key, (2, G, tokens, D))
    kv_new = kv_new.at[0, ..., -1].set(16)
    kv = jnp.where(jnp.arange(page)[:, None] < held[:, None, None, None, None], kv, jnp.nan)
    return (
        jnp.pad(lengths, (0, 2), constant_values=n * page).astype(jnp.int32),
        tables,
        jnp.concatenate([jnp.zeros(1), jnp.cumsum(new), tokens + page * jnp.array([1, 9])]).astype(
            jnp.int32
        ),
        jnp.array([seqs], jnp.int32),
        q.astype(dtype),
        kv_new.astype(dtype),
        kv.astype(dtype),
    )


class Copies:
    """The copies copy(i), for i from `first` up to `stop`."""

    def __init__(self, copy, first, stop):
        self.copy, self.first, self.stop = copy, first, stop

    def start(self):
        """Start all of them."""
        pl.loop(self.first, self.stop)(lambda i: self.copy(i).start())

    def wait(self):
        """Wait until all of them have ended."""
        pl.loop(self.first, self.stop)(lambda i: self.copy(i).wait())


def put(new_ref, page_ref, row_0, first, end):
    """Put rows of new_ref[2, G, bq, D] into a page: row 0 belongs in slot row_0, or outside.

    Only slots from `first` up to `end` change. The rows are moved by a product with ones and zeros.
    """
    _, G, page, D = page_ref.shape
    bq = new_ref.shape[2]
    slot = jax.lax.broadcasted_iota(jnp.int32, (page, 1), 0)
    row = row_0 + jax.lax.broadcasted_iota(jnp.int32, (bq, 1), 0)
    new = jnp.where((first <= row) & (row < end), new_ref[...], 0).reshape(2 * G, bq, D)
    moves = slot == row_0 + jax.lax.broadcasted_iota(jnp.int32, (page, bq), 1)
    moves = jnp.broadcast_to(moves.astype(new.dtype), (2 * G, page, bq))
    rows = jax.lax.dot_general(
        moves,
        new,
        (((2,), (1,)), ((0,), (0,))),
        precision="highest" if new.dtype == jnp.float32 else None,
        preferred_element_type=jnp.float32,
    )
    rows = rows.reshape(page_ref.shape).astype(page_ref.dtype)
    page_ref[...] = jnp.where((first <= slot) & (slot < end), rows, page_ref[...])


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


def test_rpa_fused_write(hidden_case):
    hidden_case.grade(rpa_fused_write)
