# ruff: noqa: N803, N806
"""Attention of several tokens to pages of a cache, by the reference that ships in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import ragged_paged_attention as ragged

from tests.support.independent.registry import independent


def attention(q: Any, pages: Any, lengths: Any, tables: Any, ends: Any, R: int) -> Any:
    """JAX's `ref_ragged_paged_attention`, with our order of axes.

    q [G, T * R, D]; pages [P, 2, G, page, D]; of each sequence its length, its row of tables, and,
    with one number more, where its queries end. Sequences without queries are left out, since the
    reference has no softmax of nothing.
    """
    (G, N, D), ends = q.shape, np.asarray(ends)
    some = np.flatnonzero(np.diff(ends))
    queries = jnp.transpose(q.reshape(G, N // R, R, D), (1, 0, 2, 3)).reshape(-1, G * R, D)
    cache = jnp.transpose(pages, (0, 3, 2, 1, 4)).reshape(len(pages), -1, 2 * G, D)
    o = ragged.ref_ragged_paged_attention(
        queries,
        cache,
        jnp.asarray(lengths)[some],
        jnp.asarray(tables)[some],
        jnp.asarray(ends[[0, *(some + 1)]]),
        jnp.array([len(some)]),
        sm_scale=D**-0.5,
    )
    return jnp.transpose(o.reshape(-1, G, R, D), (1, 0, 2, 3)).reshape(q.shape)


@independent("chunked_prefill")
def _(start: Any, table: Any, q: Any, kv_pages: Any, R: int) -> Any:
    tokens = q.shape[1] // R
    return attention(q, kv_pages, start + tokens, table[None], [0, tokens], R)


@independent("ragged_paged_attention")
def _(lengths: Any, tables: Any, cu_q_lens: Any, num_seqs: Any, q: Any, kv: Any, R: int) -> Any:
    count = int(num_seqs[0])
    return attention(q, kv, lengths[:count], tables[:count], cu_q_lens[: count + 1], R)


@independent("rpa_fused_write")
def _(
    lengths: Any, tables: Any, cu_q_lens: Any, num_seqs: Any, q: Any, new: Any, kv: Any, R: int
) -> Any:
    """Row by row: each token's key and value go to its slot; then the attention as above."""
    cache, count = np.array(kv), int(num_seqs[0])
    for seq in range(count):
        end = int(cu_q_lens[seq + 1])
        for token in range(int(cu_q_lens[seq]), end):
            page, slot = divmod(int(lengths[seq]) - end + token, cache.shape[3])
            cache[tables[seq, page], :, :, slot] = np.asarray(new)[:, :, token]
    seqs = lengths[:count], tables[:count], cu_q_lens[: count + 1]
    return attention(q, jnp.asarray(cache), *seqs, R), cache
