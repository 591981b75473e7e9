"""Attend to a cache whose pages lie anywhere: the index map finds them in a table.

Goal
    B sequences, each with one new token, share one pool of N pages. A page holds P keys, or P
    values, of all G heads. Sequence b has lengths[b] keys, possibly none; keys t * P to
    t * P + P - 1 are in page table[b, t]. Write the index map of the pages, and the part of
    the kernel that processes a page. A sequence without keys gets zeros.

Concept
    The length of an answer isn't known in advance, and a cache with room for the longest one
    is mostly empty. So a server divides its memory into pages, and a sequence takes another
    page when its last one is full. Consecutive pages of a sequence can be anywhere in memory:

        lengths   table            pool, P = 4
                                     0    1    2    3    4    5    6
          6       [ 5, 2, ? ]      +----+----+----+----+----+----+----+
          0       [ ?, ?, ? ]      | c  |free| ab | b  |free| ac |free|
          11      [ 5, 0, 3 ]      | cc | .. | .. | .. | .. | ac | .. |
                                   +----+----+----+----+----+----+----+

    Sequences with the same beginning, such as a system prompt, share its pages. Past the
    entries that a sequence needs, the table holds stale ones.

    The kernel doesn't need a contiguous copy of the cache. `lengths` and `table` are scalars,
    prefetched to SMEM, and an index map may read them: it can return any block number. The
    pipeline prefetches these pages just as it prefetches neighbouring blocks. The index map's
    arguments are the grid's indices, then both Refs.

    There is one step for each entry of the table. If a step's index map names the same page
    as the step before, nothing is copied. At production size, half of the steps are like
    that: 64 sequences of up to 32 pages of 128 keys, about half of them filled, with 8 heads
    of keys and D = 128. The kernel moves 518 MiB in bfloat16 and takes 1.09 ms on a v5e, at
    61 % of HBM's bandwidth. The rest is the cost of 2048 steps, half of which do nothing.
    With pages of 32 keys there are 8192 steps, and the kernel takes 3.17 ms. XLA first
    gathers the pages of the whole table, and moves 5.08 GiB.

    Free pages, and slots past the length, hold garbage: here NaN.

Shapes
    name            dtype[dims]          memory space   Ref's shape    block
    lengths_ref     int32[B]             SMEM           (B,)           whole
    table_ref       int32[B, T]          SMEM           (B, T)         whole
    q_ref, o_ref    q.dtype[B, G, R, D]  VMEM           (G, R, D)      (b, 0, 0, 0)
    k_ref, v_ref    q.dtype[N, G, P, D]  VMEM           (G, P, D)      yours
    m_ref, l_ref    float32[G, R, 1]     VMEM scratch   (G, R, 1)      -
    acc_ref         float32[G, R, D]     VMEM scratch   (G, R, D)      -

Try
    pytest -k paged_attention_index_map          stuck?  kata hint paged_attention_index_map

Needs     decode_attention, permuted_matmul
Read on   Efficient Memory Management for LLM Serving, https://arxiv.org/abs/2309.06180
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def paged_attention_index_map_spec(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "N G P D"],
    v: Float[Array, "N G P D"],
) -> Float[Array, "B G R D"]:
    """The required result, in plain jax.numpy."""
    (B, T), (_, G, P, D) = table.shape, k.shape
    k, v = (x[table].swapaxes(1, 2).reshape(B, G, T * P, D) for x in (k, v))
    there = jnp.arange(T * P) < lengths[:, None, None]
    s = jnp.einsum("bgrd,bgsd->bgrs", q, k) * D**-0.5
    p = jax.nn.softmax(s, axis=-1, where=there[:, None])
    p = jnp.where(lengths[:, None, None, None] > 0, p, 0)
    return jnp.einsum("bgrs,bgsd->bgrd", p, jnp.where(there[..., None], v, 0))


def paged_attention_index_map_kernel(
    lengths_ref, table_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref
):
    b, t = pl.program_id(0), pl.program_id(1)
    P = k_ref.shape[1]

    @pl.when(t == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    # BEGIN SOLUTION
    raise NotImplementedError(
        "attend to the page, unless it lies past the sequence's length in lengths_ref"
    )
    # END SOLUTION

    @pl.when(t == pl.num_programs(1) - 1)
    def _():
        total = l_ref[...]
        o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)


def paged_attention_index_map(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "N G P D"],
    v: Float[Array, "N G P D"],
) -> Float[Array, "B G R D"]:
    """Launch: one step for each entry of the table, with all heads of its page."""
    (B, G, R, D), T, P = q.shape, table.shape[1], k.shape[2]
    # BEGIN SOLUTION
    raise NotImplementedError(
        "def page(b, t, lengths, table): the block of k and v that step (b, t) needs"
    )
    # END SOLUTION
    q_spec = pl.BlockSpec((None, G, R, D), lambda b, t, lengths, table: (b, 0, 0, 0))
    kv_spec = pl.BlockSpec((None, G, P, D), page)
    return pl.pallas_call(
        paged_attention_index_map_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(B, T),
            in_specs=[q_spec, kv_spec, kv_spec],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, D), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="paged_attention_index_map",
    )(lengths, table, q, k, v)


# ---- Given: inputs and helpers. ----


def attend_up_to(q, k, v, left, m_ref, l_ref, acc_ref):
    """One step of the online softmax of all heads, with the first `left` rows of k and v."""
    s = jnp.einsum("grd,gsd->grs", q, k, preferred_element_type=jnp.float32)
    here = jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left
    s = jnp.where(here, s * q.shape[-1] ** -0.5, -jnp.inf)
    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 1) < left, v, 0)
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=2, keepdims=True))
    alpha, p = jnp.exp(m_prev - m_next), jnp.exp(s - m_next)
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=2, keepdims=True)
    pv = jnp.einsum("grs,gsd->grd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    acc_ref[...] = alpha * acc_ref[...] + pv


def paged_attention_index_map_inputs(key, *, B, T, G, R, P, D, N, dtype):
    """Lengths: 0, 1, P, P + 1, all, and random ones; scrambled pages; NaN in unused slots.

    All sequences with a full first page share it. Scores lie far apart.
    """
    q_key, size_key, key = jax.random.split(key, 3)
    k_key, v_key, length_key, order_key, page_key = jax.random.split(key, 5)
    size = jnp.exp(jax.random.uniform(size_key, (B, G, R, 1), maxval=3.5))
    # In sixteenths, so that every product and every sum is exact in float32.
    q = jnp.round(jax.random.normal(q_key, (B, G, R, D)) * size * 16) / 16
    k = jnp.round(jax.random.normal(k_key, (N, G, P, D)) * 16) / 16
    # All scores of the first query of a head are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    k, q = k.at[..., -1].set(16), q.at[..., -1].set(0).at[:, :, 0].set(low)
    v = jax.random.normal(v_key, (N, G, P, D))
    lengths = jax.random.randint(length_key, (B,), 1, T * P + 1)
    lengths = jnp.concatenate([jnp.array([P + 1, 0, P, T * P, 1]), lengths])[:B]
    lengths = jax.random.permutation(order_key, lengths).astype(jnp.int32)
    pages = jax.random.permutation(page_key, N)[: B * T + 1].astype(jnp.int32)
    table = pages[1:].reshape(B, T)
    table = table.at[:, 0].set(jnp.where(lengths < P, table[:, 0], pages[0]))
    there = jnp.arange(P) < lengths[:, None, None] - P * jnp.arange(T)[:, None]
    used = jnp.zeros((N, P), bool).at[table].max(there)[:, None, :, None]
    k, v = (jnp.where(used, x, jnp.nan).astype(dtype) for x in (k, v))
    return lengths, table, q.astype(dtype), k, v


def test_paged_attention_index_map(hidden_case):
    hidden_case.grade(paged_attention_index_map)
