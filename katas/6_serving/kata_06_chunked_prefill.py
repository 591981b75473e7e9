"""Attend from a chunk of a prompt to all tokens before it, and to itself.

Goal
    A long prompt is computed in chunks. The keys and values of this chunk's tokens are
    already in the pages of the cache, after those of all earlier chunks. Write the index map
    of the pages, and the middle of the body: which keys may each query see, and which of a
    page's values must be zeroed before the product?

Concept
    A server that computes a prompt of 32,768 tokens in one step makes all other requests
    wait. With chunks of 512 tokens, it can decode other sequences between chunks, or in the
    same batch. A chunk reads the keys and values of earlier chunks from the cache.

    So its queries start in the middle of the sequence. Query t of the chunk is token
    start + t of the sequence, its *absolute position*, and sees the keys up to that position.
    `start` is a number in SMEM that differs between calls. For start = 5, pages of 4 slots, a
    chunk of 6 tokens, and blocks of 3 queries:

        page of the sequence     0           1           2           (3)
        position              0 1 2 3     4 5 6 7     8 9 10 .     . . . .
                            +---------+ +---------+ +---------+ +---------+
        block 0   t=0  (5)  | # # # # | | # #     | |       ? | | ? ? ? ? |
                    1  (6)  | # # # # | | # # #   | |       ? | | ? ? ? ? |
                    2  (7)  | # # # # | | # # # # | |       ? | | ? ? ? ? |
                            +---------+ +---------+ +---------+ +---------+
        block 1     3  (8)  | # # # # | | # # # # | | #     ? | | ? ? ? ? |
                    4  (9)  | # # # # | | # # # # | | # #   ? | | ? ? ? ? |
                    5 (10)  | # # # # | | # # # # | | # # # ? | | ? ? ? ? |

    The edge of the mask isn't the diagonal of a square, and isn't aligned with pages. Block 0
    needs only pages 0 and 1. If the index map stays at page 1 for the remaining steps,
    nothing more is copied.

    Slots after the chunk's last token, marked ?, hold values of the page's former owner, here
    NaN. A mask turns their scores into weights of 0. But 0 times NaN is NaN, so replace their
    values before the product.

    The R query heads that share a head of keys are rows of one matrix, as in
    decode_attention: row t * R + r of q is head r of query t. A chunk of 2048 tokens after
    2000 others, with 8 heads of keys, R = 4, D = 128 and pages of 256 slots in bfloat16,
    moves 84 MiB and takes 0.83 ms on a v5e. The matrix unit is the busiest unit, at 49 % of
    that time; softmax and step overhead don't overlap with it. XLA's program for the spec
    gathers the pages, computes all scores and moves 2.84 GiB.

Shapes
    name           dtype[dims]               memory space   Ref's shape      block
    start_ref      int32[1]                  SMEM           (1,)             whole
    table_ref      int32[n]                  SMEM           (n,)             whole
    q_ref, o_ref   q.dtype[G, N, D]          VMEM           (bq * R, D)      (g, i, 0)
    kv_ref         q.dtype[P, 2, G, page, D] VMEM           (2, page, D)     yours
    m_ref, l_ref   float32[bq * R, 128]      VMEM scratch   (bq * R, 128)    -
    acc_ref        float32[bq * R, D]        VMEM scratch   (bq * R, D)      -

    N = T * R. kv_ref[0] holds a page's keys, kv_ref[1] its values. bq divides T.

Try
    pytest -k chunked_prefill          stuck?  kata hint chunked_prefill

Needs     paged_attention_index_map, ragged_sequence
Read on   Sarathi: chunked prefills, https://arxiv.org/abs/2308.16369
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def chunked_prefill_spec(
    start: Int32[Array, "1"],
    table: Int32[Array, "n"],
    q: Float[Array, "G N D"],
    kv_pages: Float[Array, "P 2 G page D"],
    *,
    R: int,
) -> Float[Array, "G N D"]:
    """The required result, in plain jax.numpy."""
    G, rows, D = q.shape
    kv = jnp.moveaxis(kv_pages[table], 0, 2).reshape(2, G, -1, D)
    position = start[0] + jnp.arange(rows) // R
    kv = jnp.where(jnp.arange(kv.shape[2])[:, None] <= position[-1], kv, 0)
    seen = jnp.arange(kv.shape[2]) <= position[:, None]
    s = jnp.einsum("gnd,gsd->gns", q, kv[0]) * D**-0.5
    return jnp.einsum("gns,gsd->gnd", jax.nn.softmax(jnp.where(seen, s, -jnp.inf)), kv[1])


def chunked_prefill_kernel(start_ref, table_ref, q_ref, kv_ref, o_ref, m_ref, l_ref, acc_ref, *, R):
    page = kv_ref.shape[1]
    i, j = pl.program_id(1), pl.program_id(2)

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    # BEGIN SOLUTION
    raise NotImplementedError(
        "in pages that the block of q_ref sees: mask keys after each query, zero values after the last, attend"
    )
    # END SOLUTION

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], acc_ref.shape[1])).astype(o_ref.dtype)


def chunked_prefill(
    start: Int32[Array, "1"],
    table: Int32[Array, "n"],
    q: Float[Array, "G N D"],
    kv_pages: Float[Array, "P 2 G page D"],
    *,
    R: int = 4,
    bq: int = 256,
) -> Float[Array, "G N D"]:
    """Launch: for each head and block of bq queries, all pages that the chunk can see."""
    G, rows, D = q.shape
    page = kv_pages.shape[3]

    def page_of_step(g, i, j, start_ref, table_ref):
        # BEGIN SOLUTION
        raise NotImplementedError(
            "return the block of kv_pages for head g and page j; past the last one that block i sees, stay there"
        )
        # END SOLUTION

    q_spec = pl.BlockSpec((None, bq * R, D), lambda g, i, j, *_: (g, i, 0))
    return pl.pallas_call(
        jax.tree_util.Partial(chunked_prefill_kernel, R=R),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(G, rows // R // bq, pl.cdiv(start[0] + rows // R, page)),
            in_specs=[q_spec, pl.BlockSpec((None, 2, None, page, D), page_of_step)],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((bq * R, LANES), jnp.float32),
                pltpu.VMEM((bq * R, LANES), jnp.float32),
                pltpu.VMEM((bq * R, D), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="chunked_prefill",
    )(start, table, q, kv_pages)


# ---- Given: inputs and helpers. ----


@functools.partial(
    jax.jit, static_argnames=("G", "N", "D", "P", "page", "n", "before", "R", "dtype")
)
def chunked_prefill_inputs(key, *, G, N, D, P, page, n, before, R, dtype):
    """A chunk of N / R tokens after `before` others: scrambled pages, NaN in unused slots."""
    q_key, size_key, kv_key, table_key = jax.random.split(key, 4)
    size = jnp.exp(jax.random.uniform(size_key, (G, N, 1), maxval=3.5))
    q = jax.random.normal(q_key, (G, N, D)) * size
    kv = jax.random.normal(kv_key, (P, 2, G, page, D))
    # All scores of the first query of a head are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    kv, q = kv.at[:, 0, ..., -1].set(16), q.at[..., -1].set(0).at[:, 0].set(low)
    table = jax.random.permutation(table_key, P)[:n].astype(jnp.int32)
    held = jnp.zeros(P, jnp.int32).at[table].set(before + N // R - page * jnp.arange(n))
    kv = jnp.where(jnp.arange(page)[:, None] < held[:, None, None, None, None], kv, jnp.nan)
    return jnp.array([before], jnp.int32), table, q.astype(dtype), kv.astype(dtype)


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


def test_chunked_prefill(hidden_case):
    hidden_case.grade(chunked_prefill)
