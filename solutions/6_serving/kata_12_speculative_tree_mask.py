"""Verify a tree of guessed tokens in one pass over the cache: a mask kept as bits in SMEM.

Goal
    A small model has drafted T tokens after a sequence: several continuations, as a tree.
    Their keys and values follow those of the sequence. A draft sees the whole sequence, its
    own ancestors and itself, but no other draft: bit c of tree[b, t] is 1 if draft t sees
    draft c (itself included). Write the middle of the body: which scores count, given each
    draft's visible drafts as the bits of one integer?

Concept
    Decoding is bound by the bytes of the cache, so the matrix unit idles. Speculative
    decoding uses it: in the step that one token would need, the large model checks several
    drafted tokens, and keeps the longest branch that it agrees with. In a tree, guesses with
    a common beginning share its rows of the cache:

        the sequence         the drafts               bit 5 4 3 2 1 0
                             0 ── 1 ── 3    draft 0       . . . . . 1  =  1
        x x x x x x x x x x  │    └─── 4          1       . . . . 1 1  =  3
                             └─── 2 ── 5          2       . . . 1 . 1  =  5
        length = 10                               3       . . 1 . 1 1  = 11
                                                  4       . 1 . . 1 1  = 19
                                                  5       1 . . 1 . 1  = 37

    The mask isn't a triangle: drafts 1 and 2 are alternatives for the same position. As an
    array it would be [T, S]. But every draft sees the whole sequence, and drafts differ only
    in T bits each. These are in SMEM next to the lengths, and a kernel expands them to
    vectors with a shift.

    Draft c of sequence b is row length + c of its keys. Blocks that end before `length` need
    no mask. Blocks with drafts do, and a tree may begin in one block and end in the next.
    Rows after the last draft hold earlier guesses, here NaN.

    Head g's query for draft t is row g * T + t of q_ref: the G = N // T heads that share
    keys, and their T drafts, are rows of one matrix. For 8 sequences of up to 8192 keys, 8
    heads of keys and G = 4, predicted for a v5e with blocks of 2048 keys:

        drafts          1         8        16        32
        one pass   279 µs    277 µs    285 µs    315 µs

    This is 69 to 77 % of HBM's bandwidth up to 16 drafts: some sequences are short, and steps
    past their end copy nothing. With 32 drafts, the matrix unit is the bottleneck.

Shapes
    name                 dtype[dims]              memory space   Ref's shape    block
    lengths_ref          int32[B]                 SMEM           (B,)           whole
    tree_ref             int32[B, T]              SMEM           (B, T)         whole
    q_ref, o_ref         q.dtype[B, K, N, D]      VMEM           (N, D)         (b, k, 0, 0)
    k_ref, v_ref         q.dtype[B, K, S, D]      VMEM           (bs, D)        (b, k, j, 0)
    m_ref, l_ref         float32[N, 128]          VMEM scratch   (N, 128)       -
    acc_ref              float32[N, D]            VMEM scratch   (N, D)         -

    N = G * T, and T is at most 32. Past a sequence's last block, j stays at that block.

Try
    pytest -k speculative_tree_mask          stuck?  kata hint speculative_tree_mask

Needs     grouped_query_attention, ragged_sequence, splash_attention
Read on   SpecInfer: token trees, https://arxiv.org/abs/2305.09781
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def speculative_tree_mask_spec(
    lengths: Int32[Array, "B"],
    tree: Int32[Array, "B T"],
    q: Float[Array, "B K N D"],
    k: Float[Array, "B K S D"],
    v: Float[Array, "B K S D"],
) -> Float[Array, "B K N D"]:
    """The required result, in plain jax.numpy."""
    T, (N, D), S = tree.shape[1], q.shape[2:], k.shape[2]
    bits = (tree[:, :, None] >> jnp.arange(T)) & 1 == 1
    draft = jnp.arange(S) - lengths[:, None]
    seen = jnp.take_along_axis(bits, jnp.clip(draft, 0, T - 1)[:, None], axis=2)
    sees = (draft < 0)[:, None] | (seen & (draft < T)[:, None])
    k, v = (jnp.where((draft < T)[:, None, :, None], x, 0) for x in (k, v))
    s = jnp.einsum("bknd,bksd->bkns", q, k) * D**-0.5
    s = jnp.where(jnp.tile(sees, (1, N // T, 1))[:, None], s, MASK_VALUE)
    return jnp.einsum("bkns,bksd->bknd", jax.nn.softmax(s), v)


def speculative_tree_mask_kernel(
    lengths_ref, tree_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref
):
    b, j = pl.program_id(0), pl.program_id(2)
    T, bs = tree_ref.shape[1], k_ref.shape[0]
    length = lengths_ref[b]

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    # BEGIN SOLUTION
    left = length - j * bs  # where the drafts begin, in rows of this block

    @pl.when(left >= bs)
    def _():
        attend_to(scores(q_ref, k_ref), v_ref[...], m_ref, l_ref, acc_ref)

    @pl.when((left < bs) & (left + T > 0))
    def _():
        s = scores(q_ref, k_ref)
        t = jax.lax.broadcasted_iota(jnp.int32, (s.shape[0], LANES), 0) % T
        bits = jnp.zeros_like(t)
        for n in range(T):
            bits = jnp.where(t == n, tree_ref[b, n], bits)
        draft = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) - left
        seen = (widened(bits, bs) >> jnp.clip(draft, 0, T - 1)) & 1 == 1
        sees = (draft < 0) | (seen & (draft < T))
        row = jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 0)
        v = jnp.where(row < left + T, v_ref[...], 0)
        attend_to(jnp.where(sees, s, MASK_VALUE), v, m_ref, l_ref, acc_ref)

    # END SOLUTION

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o = acc_ref[...] / widened(l_ref[...], o_ref.shape[1])
        o_ref[...] = o.astype(o_ref.dtype)


def speculative_tree_mask(
    lengths: Int32[Array, "B"],
    tree: Int32[Array, "B T"],
    q: Float[Array, "B K N D"],
    k: Float[Array, "B K S D"],
    v: Float[Array, "B K S D"],
    *,
    bs: int = 512,
) -> Float[Array, "B K N D"]:
    """Launch: for each sequence and head of keys, the blocks up to the last draft."""
    B, K, N, D = q.shape
    T, S = tree.shape[1], k.shape[2]

    def block_of_keys(b, k, j, lengths_ref, tree_ref):
        return b, k, jnp.minimum(j, (lengths_ref[b] + T - 1) // bs), 0

    q_spec = pl.BlockSpec((None, None, N, D), lambda b, k, j, *_: (b, k, 0, 0))
    kv_spec = pl.BlockSpec((None, None, bs, D), block_of_keys)
    return pl.pallas_call(
        speculative_tree_mask_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(B, K, S // bs),
            in_specs=[q_spec, kv_spec, kv_spec],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((N, LANES), jnp.float32),
                pltpu.VMEM((N, LANES), jnp.float32),
                pltpu.VMEM((N, D), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="speculative_tree_mask",
    )(lengths, tree, q, k, v)


# ---- Given: inputs and helpers. ----


def speculative_tree_mask_inputs(key, *, B, K, N, T, S, D, bs, dtype):
    """Random trees that straddle two blocks, begin one, or end one; NaN after the last draft.

    B, which differs from case to case, selects the lengths, so that each session has them all.
    """
    q_key, size_key, k_key, v_key, parent_key, some_key = jax.random.split(key, 6)
    some = jax.random.randint(some_key, (2,), 0, S - T + 1)
    # One draft is alone in a block; drafts begin a block, end the last, end another one.
    alone = bs - T + 1
    kinds = [alone, 2 * bs, S - T, bs + 3, bs - T, bs - T // 2, 0, some[0], bs + alone, some[1]]
    lengths = jnp.resize(jnp.roll(jnp.array(kinds), -4 * (B % 3)), B).astype(jnp.int32)
    parents = jax.random.randint(parent_key, (B, T), 0, jnp.maximum(jnp.arange(T), 1))
    # Every second draft is close to the root, so that there are always alternatives.
    parents = jnp.where(jnp.arange(T) % 2 == 0, parents, parents // 3)
    tree = jnp.zeros((B, T), jnp.int32).at[:, 0].set(1)
    for t in range(1, T):
        above = jnp.take_along_axis(tree, parents[:, t : t + 1], axis=1)[:, 0]
        tree = tree.at[:, t].set(above | jnp.left_shift(jnp.int32(1), t))
    size = jnp.exp(jax.random.uniform(size_key, (B, K, N, 1), maxval=3.5))
    q = jax.random.normal(q_key, (B, K, N, D)) * size
    k, v = (jax.random.normal(one, (B, K, S, D)) for one in (k_key, v_key))
    # All scores of the first query of a head are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    k, q = k.at[..., -1].set(16), q.at[..., -1].set(0).at[:, :, 0].set(low)
    real = jnp.arange(S)[:, None] < (lengths + T)[:, None, None, None]
    k, v = (jnp.where(real, x, jnp.nan) for x in (k, v))
    return lengths, tree, q.astype(dtype), k.astype(dtype), v.astype(dtype)


def widened(x, width):
    """Repeat a statistic of 128 equal lanes until it is `width` lanes wide."""
    return jnp.tile(x, (1, width // LANES))


def scores(q_ref, k_ref):
    """Return the scaled scores of a block of queries and a block of keys: float32[bq, bkv]."""
    last_of_both = (((1,), (1,)), ((), ()))
    scale = q_ref.shape[1] ** -0.5
    return scale * jax.lax.dot_general(
        q_ref[...], k_ref[...], last_of_both, preferred_element_type=jnp.float32
    )


def clear(m_ref, l_ref, acc_ref):
    """Before the first block: no score has been seen, and nothing has been summed."""
    m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)


def attend_to(s, v, m_ref, l_ref, acc_ref):
    """One step of online softmax: update the sums with a block's scores s and its values v."""
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
    alpha = jnp.exp(m_prev - m_next)
    p = jnp.exp(s - widened(m_next, s.shape[1]))
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
    pv = jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    acc_ref[...] = widened(alpha, acc_ref.shape[1]) * acc_ref[...] + pv


def test_speculative_tree_mask(hidden_case):
    hidden_case.grade(speculative_tree_mask)
