"""Attend to a window of keys and to the first few keys, with a mask given by a formula.

Goal
    Each query sees the last `window` keys, including its own, and the first `sinks`
    keys of the sequence, but no later key. Write the function that chooses a grid
    step's block of keys, and the part of the body that handles the block.

Concept
    With a window, the work grows with the length and no longer with its square.
    But a model that was trained without a window fails when the first tokens leave it,
    because its softmax puts surplus weight on these tokens. So keep these few keys,
    called sinks. A query then sees two runs of keys, with a gap that grows:

        window 5, sinks 2              in blocks of 2 x 2
             keys ->                   # full   / partial   . empty
        q    # - - - - - - - - - - -
        |    # # - - - - - - - - - -   / . . . . .
        v    # # # - - - - - - - - -
             # # # # - - - - - - - -   # / . . . .
             # # # # # - - - - - - -
             # # # # # # - - - - - -   # # / . . .
             # # # # # # # - - - - -
             # # - # # # # # - - - -   # / # / . .
             # # - - # # # # # - - -
             # # - - - # # # # # - -   # . / # / .
             # # - - - - # # # # # -
             # # - - - - - # # # # #   # . . / # /

    splash_attention could do this with tables and an array of partial masks. But this
    mask is a one-line formula, which the kernel can compute as well. Positions
    determine which block a step visits, whether the block is full, and which of its
    scores count. Positions count keys: block j begins at position j * bkv.

    A row visits the blocks with sinks first, then those that its window touches.
    The two can overlap, but a block visited twice would count twice. An unused step
    has no work. Let it return the row's last block, which is in VMEM already.

    Predicted for 8 heads, T = 8192, H = 128, bfloat16, blocks of 512, a window of
    1024 and 4 sinks, where 58 of 256 blocks hold something:

                                      HBM       v5e       v6e
        causal_flash                302 MiB   1240 µs    917 µs
        splash_attention            228 MiB    579 µs    437 µs
        this kernel                 146 MiB    538 µs    397 µs

Shapes
    name           dtype[dims]           memory space   Ref's shape   block
    q_ref, o_ref   q.dtype[B, N, T, H]   VMEM           (bq, H)       (b, n, i, 0)
    k_ref, v_ref   q.dtype[B, K, T, H]   VMEM           (bkv, H)      yours
    m_ref, l_ref   float32[bq, 128]      VMEM scratch   (bq, 128)     -
    acc_ref        float32[bq, H]        VMEM scratch   (bq, H)       -

Try
    pytest -k sliding_window_and_sinks      stuck?  kata hint sliding_window_and_sinks

Needs     causal_flash, grouped_query_attention, splash_attention
Read on   Attention sinks, https://arxiv.org/abs/2309.17453
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def sliding_window_and_sinks_spec(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B K T H"],
    v: Float[Array, "B K T H"],
    *,
    window: int,
    sinks: int,
) -> Float[Array, "B N T H"]:
    """The required result, in plain jax.numpy."""
    query, key = jnp.arange(q.shape[2])[:, None], jnp.arange(k.shape[2])
    mask = (key <= query) & ((query - key < window) | (key < sinks))
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = jnp.einsum("bnth,bnsh->bnts", q, k) * q.shape[3] ** -0.5
    p = jax.nn.softmax(jnp.where(mask, s, MASK_VALUE), axis=-1)
    return jnp.einsum("bnts,bnsh->bnth", p, v)


def visited(i, step, *, bq, bkv, window, sinks):
    """Return the block of keys that a step of row i visits, and whether it has work.

    The blocks with sinks come first, then those of the window that have not been visited.
    """
    # BEGIN SOLUTION
    sink_blocks = pl.cdiv(sinks, bkv)
    first, last = touched(i, bq=bq, bkv=bkv, window=window)
    j = jnp.where(step < sink_blocks, step, jnp.maximum(first, sink_blocks) + step - sink_blocks)
    return jnp.minimum(j, last), j <= last
    # END SOLUTION


def sliding_window_and_sinks_kernel(
    q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, window, sinks
):
    bq, bkv = q_ref.shape[0], k_ref.shape[0]
    i, step = pl.program_id(2), pl.program_id(3)
    j, works = visited(i, step, bq=bq, bkv=bkv, window=window, sinks=sinks)

    @pl.when(step == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    # BEGIN SOLUTION
    query, key = i * bq, j * bkv  # the first ones of the two blocks
    near = query + bq - 1 - key < window
    full = (key + bkv - 1 <= query) & (near | (key + bkv <= sinks))

    @pl.when(works & full)
    def _():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    @pl.when(works & ~full)
    def _():
        s = scores(q_ref, k_ref)
        q = query + jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        k = key + jax.lax.broadcasted_iota(jnp.int32, (1, bkv), 1)
        # Once per key, not per score: three operations less for each score.
        until = jnp.where(k < sinks, bq * pl.num_programs(2), k + window)
        sees = (k <= q) & (q < until)
        attend(jnp.where(sees, s, MASK_VALUE), v_ref, m_ref, l_ref, acc_ref)

    # END SOLUTION

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)


def sliding_window_and_sinks(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B K T H"],
    v: Float[Array, "B K T H"],
    *,
    window: int = 1024,
    sinks: int = 4,
    bq: int = 512,
    bkv: int = 512,
) -> Float[Array, "B N T H"]:
    """Launch: every row of blocks gets as many steps as the busiest row has blocks to visit."""
    B, N, T, H = q.shape
    group = N // k.shape[1]
    sizes = {"bq": bq, "bkv": bkv, "window": window}

    def blocks_of(i):
        first, last = touched(i, **sizes)
        return pl.cdiv(sinks, bkv) + last + 1 - max(first, pl.cdiv(sinks, bkv))

    def kv_index(b, n, i, step):
        j, _ = visited(i, step, sinks=sinks, **sizes)
        return b, n // group, j, 0

    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, i, step: (b, n, i, 0))
    kv_spec = pl.BlockSpec((None, None, bkv, H), kv_index)
    return pl.pallas_call(
        functools.partial(sliding_window_and_sinks_kernel, window=window, sinks=sinks),
        grid=(B, N, T // bq, max(map(blocks_of, range(T // bq)))),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="sliding_window_and_sinks",
    )(q, k, v)


# ---- Given: inputs and helpers. ----


def sliding_window_and_sinks_inputs(key, *, B, N, K, T, H, dtype):
    return queries_keys_values(key, B=B, N=N, K=K, T=T, S=T, H=H, dtype=dtype)


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


def touched(i, *, bq, bkv, window):
    """Return the first and the last block of keys that the windows of block i of queries touch.

    The first is negative where a window begins before the sequence does.
    """
    return (i * bq - window + 1) // bkv, (i * bq + bq - 1) // bkv


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


def store(o_ref, m_ref, l_ref, acc_ref):
    """After the last block: normalize. A query that saw no key has no maximum and gets 0."""
    H = o_ref.shape[1]
    seen = widened(m_ref[...], H) > MASK_VALUE
    o = jnp.where(seen, acc_ref[...] / widened(l_ref[...], H), 0)
    o_ref[...] = o.astype(o_ref.dtype)


def test_sliding_window_and_sinks(hidden_case):
    hidden_case.grade(sliding_window_and_sinks)
