"""Fetch only the blocks that a mask needs: tables that drive the index maps.

Goal
    Write the forward kernel of splash attention, which is used to train large
    models: block-sparse attention that neither computes nor copies blocks that the mask
    skips, with grouped queries. You write the grid_spec of the launch. The body
    and the tables are given; `dense_mask` shows which mask they stand for. The kernel
    also stores lse, the log-sum-exp of each query's scores, for the backward pass.

Concept
    An index map can do arithmetic, so it could follow a causal mask. But the blocks
    that an arbitrary mask needs are data, and an index map runs before its
    step, when no body has read anything yet. *Scalar prefetch* is made for this:
    the first operands of the launch are copied to SMEM before the first step,
    and every index map receives them after the grid indices. For this, give
    `pallas_call` a grid_spec, a `pltpu.PrefetchScalarGridSpec`:

        num_scalar_prefetch=1      index map(i, j, table_ref) -> table_ref[i, j]
                                   body(table_ref, <inputs>, <outputs>, <scratch>)

    So a row of blocks doesn't have to go through all blocks of keys. It goes through a
    list, and all lists are as long as the longest one, J entries. For a causal mask with
    a window, whose blocks repeat along the diagonal, the first rows look like this:

        blocks (. empty)     block_mask     data_next     mask_next
        1  .  .  .           1  0  0        0  0' 0'      0  0' 0'
        2  1  .  .           2  1  0        0  1  0'      0' 0  1'
        1  2  1  .           1  2  1        0  1  2       1  0' 0
        .  1  2  1           1  2  1        1  2  3       1  0' 0

    block_mask[i, step] is the same as before: 0 skip, 1 partial, 2 full.
    data_next is the block of keys. mask_next is the number of a partial block's mask
    in partial_masks. Equal blocks, such as all those on the diagonal, are stored only
    once. The blocks of entries marked ' aren't used in their own step. Each repeats the
    entry of the next step that uses one. An index map can only choose a block, not prevent
    its copy, so this way each copy is made once, and early.

    Predicted for 8 heads, T = S = 4096, H = 128, bfloat16 and blocks of 512:

                                    window of 1024                causal
                                   HBM     v5e    v6e       HBM     v5e    v6e
        block_sparse_attention    272 MiB 439 µs 311 µs    272 MiB 481 µs 341 µs
        this launch              80.3 MiB 219 µs 165 µs   86.3 MiB 391 µs 295 µs

Shapes
    name                           dtype[dims]           memory space   Ref's shape   block
    block_mask_ref                 int32[I, J]           SMEM           (I, J)        whole
    data_next_ref, mask_next_ref   int32[I, J]           SMEM           (I, J)        whole
    q_ref, o_ref                   q.dtype[B, N, T, H]   VMEM           (bq, H)       yours
    lse_ref                        float32[B, N, 1, T]   VMEM           (1, bq)       yours
    k_ref, v_ref                   q.dtype[B, K, S, H]   VMEM           (bkv, H)      yours
    mask_ref                       int8[P, bq, bkv]      VMEM           (bq, bkv)     yours
    m_ref, l_ref                   float32[bq, 128]      VMEM scratch   (bq, 128)     -
    acc_ref                        float32[bq, H]        VMEM scratch   (bq, H)       -

Try
    pytest -k splash_attention          stuck?  kata hint splash_attention

Needs     block_sparse_attention, grouped_query_attention
Read on   Scalar Prefetch, https://docs.jax.dev/en/latest/pallas/tpu/sparse.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32, Int8, Int32

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def splash_attention_spec(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B K S H"],
    v: Float[Array, "B K S H"],
    partial_masks: Int8[Array, "P bq bkv"],
    block_mask: Int32[Array, "I J"],
    data_next: Int32[Array, "I J"],
    mask_next: Int32[Array, "I J"],
) -> tuple[Float[Array, "B N T H"], Float32[Array, "B N 1 T"]]:
    """The required results, in plain jax.numpy: o and lse."""
    S, bkv = k.shape[2], partial_masks.shape[2]
    mask = dense_mask(partial_masks, block_mask, data_next, mask_next, S // bkv)
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = jnp.einsum("bnth,bnsh->bnts", q, k) * q.shape[3] ** -0.5
    s = jnp.where(mask, s, MASK_VALUE)
    o = jnp.einsum("bnts,bnsh->bnth", jnp.where(mask, jax.nn.softmax(s, axis=-1), 0), v)
    lse = jnp.where(mask.any(1), jax.nn.logsumexp(s, axis=-1), 0)[:, :, None]
    return o, lse.astype(jnp.promote_types(q.dtype, jnp.float32))


def splash_attention(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B K S H"],
    v: Float[Array, "B K S H"],
    partial_masks: Int8[Array, "P bq bkv"],
    block_mask: Int32[Array, "I J"],
    data_next: Int32[Array, "I J"],
    mask_next: Int32[Array, "I J"],
) -> tuple[Float[Array, "B N T H"], Float32[Array, "B N 1 T"]]:
    """Launch: every row of blocks gets as many steps as the fullest row has blocks to compute."""
    B, N, T, H = q.shape
    K = k.shape[1]
    _, bq, bkv = partial_masks.shape
    rows, steps = block_mask.shape
    # BEGIN SOLUTION
    group = N // K

    def q_index(b, n, i, step, block_mask_ref, data_next_ref, mask_next_ref):
        return b, n, i, 0

    def lse_index(b, n, i, step, block_mask_ref, data_next_ref, mask_next_ref):
        return b, n, 0, i

    def kv_index(b, n, i, step, block_mask_ref, data_next_ref, mask_next_ref):
        return b, n // group, data_next_ref[i, step], 0

    def mask_index(b, n, i, step, block_mask_ref, data_next_ref, mask_next_ref):
        return mask_next_ref[i, step], 0, 0

    q_spec = pl.BlockSpec((None, None, bq, H), q_index)
    kv_spec = pl.BlockSpec((None, None, bkv, H), kv_index)
    mask_spec = pl.BlockSpec((None, bq, bkv), mask_index)
    lse_spec = pl.BlockSpec((None, None, 1, bq), lse_index)
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=3,
        grid=(B, N, rows, steps),
        in_specs=[q_spec, kv_spec, kv_spec, mask_spec],
        out_specs=[q_spec, lse_spec],
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
    )
    # END SOLUTION
    return pl.pallas_call(
        splash_attention_kernel,
        grid_spec=grid_spec,
        out_shape=[
            jax.ShapeDtypeStruct(q.shape, q.dtype),
            jax.ShapeDtypeStruct((B, N, 1, T), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="splash_attention",
    )(block_mask, data_next, mask_next, q, k, v, partial_masks)


# ---- Given: inputs and helpers. ----


def dense_mask(partial_masks, block_mask, data_next, mask_next, columns):
    """Return the bool[T, S] mask that the tables stand for, where S is `columns` blocks."""
    kind = block_mask[..., None, None]
    blocks = jnp.where(kind == 1, partial_masks[mask_next] != 0, kind == 2)
    rows, _, bq, bkv = blocks.shape
    mask = jnp.zeros((rows, columns, bq, bkv), bool)
    mask = mask.at[jnp.arange(rows)[:, None], data_next].max(blocks)
    return mask.swapaxes(1, 2).reshape(rows * bq, columns * bkv)


def splash_attention_inputs(key, *, B, N, K, T, S, H, bq, bkv, pattern, dtype):
    """Make tables for a causal mask, a local window or random blocks; and q, k and v."""
    mask_key, key = jax.random.split(key)
    mask = random_blocks(mask_key, T, S, bq, bkv)
    if pattern < 2:
        distance = jnp.arange(T)[:, None] - jnp.arange(S)
        mask = distance >= 0
        if pattern == 1:
            mask &= distance <= S // 4
    qkv = queries_keys_values(key, B=B, N=N, K=K, T=T, S=S, H=H, dtype=dtype)
    return *qkv, *splash_tables(mask, bq, bkv)


def random_blocks(key, T, S, bq, bkv):
    """Make rows of blocks: all partial, one partial, none at all, a full one between partial ones.

    Some rows of partial blocks are fully masked.
    """
    kind_key, row_key, element_key = jax.random.split(key, 3)
    kind = jax.random.randint(kind_key, (T // bq, S // bkv), 0, 3)
    kind = kind.at[0].set(1).at[1].set(0).at[1, -1].set(1)
    kind = kind.at[2].set(0).at[3].set(1).at[3, 1].set(2)
    kind = jnp.repeat(jnp.repeat(kind, bq, axis=0), bkv, axis=1)
    rows = jax.random.bernoulli(row_key, 0.5, (T, 1))
    elements = jax.random.bernoulli(element_key, 0.5, (T, S))
    return (kind == 2) | ((kind == 1) & rows & elements)


def splash_tables(mask, bq, bkv):
    """Return partial_masks, block_mask, data_next and mask_next for a mask bool[T, S]."""
    T, S = mask.shape
    blocks = jax.device_get(mask).reshape(T // bq, bq, S // bkv, bkv).swapaxes(1, 2)
    kinds = (blocks.any((2, 3)).astype(int) + blocks.all((2, 3))).tolist()
    active = [[(j, kind) for j, kind in enumerate(row) if kind] for row in kinds]
    width = max(1, *map(len, active))
    block_mask, data_next, mask_next, partial = [], [], [], {}
    for i, row in enumerate(active):
        for j, kind in row + [(None, 0)] * (width - len(row)):
            block_mask.append(kind)
            data_next.append(j)
            if kind == 1:  # equal blocks are stored once
                partial.setdefault(blocks[i, j].tobytes(), (len(partial), blocks[i, j]))
            mask_next.append(partial[blocks[i, j].tobytes()][0] if kind == 1 else None)
    tables = (block_mask, upcoming(data_next), upcoming(mask_next))
    masks = [block for _, block in partial.values()] or [jnp.ones((bq, bkv), bool)]
    shape = (T // bq, width)
    return jnp.stack(masks).astype(jnp.int8), *(jnp.int32(t).reshape(shape) for t in tables)


def upcoming(entries):
    """Replace each None with the next entry that isn't None, or at the end with the last one."""
    known = [entry for entry in entries if entry is not None]
    following, filled = (known or [0])[-1], []
    for entry in reversed(entries):
        following = following if entry is None else entry
        filled.insert(0, following)
    return filled


def queries_keys_values(key, *, B, N, K, T, S, H, dtype):
    """Make short and long query vectors: scores range from small to far beyond exp's range."""
    q_key, k_key, v_key, length_key = jax.random.split(key, 4)
    length = jnp.exp(jax.random.uniform(length_key, (B, N, T, 1), maxval=3.5))
    # In sixteenths, so that every product and every sum is exact in float32.
    q = jnp.round(jax.random.normal(q_key, (B, N, T, H)) * length * 16) / 16
    k = jnp.round(jax.random.normal(k_key, (B, K, S, H)) * 16) / 16
    # All scores of the first query are below -100.
    low = jnp.where(jnp.arange(H) == H - 1, -192, 0)
    k, q = k.at[..., -1].set(16), q.at[..., -1].set(0).at[:, :, 0].set(low)
    v = jax.random.normal(v_key, (B, K, S, H))
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


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


def attend(s, v_ref, m_ref, l_ref, acc_ref):
    """One step of online softmax: update the sums with a block's scores s and its values."""
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
    alpha = jnp.exp(m_prev - m_next)
    p = jnp.exp(s - widened(m_next, s.shape[1]))
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
    pv = jnp.dot(p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
    acc_ref[...] = widened(alpha, acc_ref.shape[1]) * acc_ref[...] + pv


def store(o_ref, lse_ref, m_ref, l_ref, acc_ref):
    """After the last block: normalize. A query that saw no key has no maximum and gets 0."""
    H = o_ref.shape[1]
    m, total = m_ref[...], l_ref[...]
    o = jnp.where(widened(m, H) > MASK_VALUE, acc_ref[...] / widened(total, H), 0)
    o_ref[...] = o.astype(o_ref.dtype)
    lse_ref[...] = jnp.where(m > MASK_VALUE, m + jnp.log(total), 0).T[:1]


def splash_attention_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    mask_ref,
    o_ref,
    lse_ref,
    m_ref,
    l_ref,
    acc_ref,
):
    i, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, step]

    @pl.when(step == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(kind == 2)
    def _():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    @pl.when(kind == 1)
    def _():
        s = jnp.where(mask_ref[...] != 0, scores(q_ref, k_ref), MASK_VALUE)
        attend(s, v_ref, m_ref, l_ref, acc_ref)

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        store(o_ref, lse_ref, m_ref, l_ref, acc_ref)


def test_splash_attention(hidden_case):
    hidden_case.grade(splash_attention)
