"""The results of the katas of 6_serving by independent code: numpy in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.independent.registry import independent


@independent("kv_cache_write")
def _(positions: Any, new: Any, cache: Any) -> Any:
    cache = np.array(cache, np.float64)
    for b, position in enumerate(np.asarray(positions)):
        cache[b, :, position] = new[b]
    return cache


@independent("decode_attention", "split_k_decode")
def _(lengths: Any, q: Any, k: Any, v: Any) -> Any:
    """jax.nn's attention of each sequence alone, with the keys that are there; 0 without any."""
    attended = [
        jax.nn.dot_product_attention(
            q[b].reshape(1, 1, -1, q.shape[-1]),
            *(x[b, :, :length].transpose(1, 0, 2)[None] for x in (k, v)),
        )
        if length
        else jnp.zeros((1, 1, q.shape[1] * q.shape[2], q.shape[3]))
        for b, length in enumerate(np.asarray(lengths))
    ]
    return jnp.concatenate(attended).reshape(q.shape)


def _paged(lengths: Any, table: Any, q: Any, k: Any, v: Any) -> Any:
    """jax.nn's attention of each sequence alone, to its pages one after another."""
    attended = np.zeros(q.shape, np.float64)
    for b, length in enumerate(np.asarray(lengths)):
        keys, values = (
            np.concatenate([np.asarray(x[page], np.float64) for page in np.asarray(table)[b]], 1)
            for x in (k, v)
        )
        if length:
            attended[b] = jax.nn.dot_product_attention(
                jnp.asarray(q[b], jnp.float32).reshape(1, 1, -1, q.shape[-1]),
                *(
                    jnp.asarray(x[:, :length], jnp.float32).transpose(1, 0, 2)[None]
                    for x in (keys, values)
                ),
            ).reshape(q.shape[1:])
    return attended


independent("paged_attention_index_map")(_paged)
independent("paged_attention_dma")(_paged)


@independent("quantised_kv")
def _(lengths: Any, table: Any, q: Any, k: Any, v: Any, scales: Any) -> Any:
    k, v, scales = (np.asarray(x, np.float64) for x in (k, v, scales))
    k, v = (x * scales[..., n, None, None] for n, x in enumerate((k, v)))
    return _paged(lengths, table, q, k, v)


@independent("mla_absorbed")
def _(lengths: Any, q: Any, q_rope: Any, rows: Any, w_k: Any, w_v: Any) -> Any:
    q, q_rope, rows, w_k, w_v = (np.asarray(x, np.float64) for x in (q, q_rope, rows, w_k, w_v))
    latent = w_v.shape[1]
    o = np.zeros((*q.shape[:2], w_v.shape[2]))
    for b, h in np.ndindex(o.shape[:2]):
        row = rows[b, : int(lengths[b])]
        if len(row):
            k = np.concatenate([row[:, :latent] @ w_k[h].T, row[:, latent:]], axis=1)
            s = k @ np.concatenate([q[b, h], q_rope[b, h]]) / np.sqrt(k.shape[1])
            p = np.exp(s - s.max())
            o[b, h] = p @ (row[:, :latent] @ w_v[h]) / p.sum()
    return o


@independent("speculative_tree_mask")
def _(lengths: Any, tree: Any, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    o, count = np.zeros(q.shape), tree.shape[1]
    for b, head, row in np.ndindex(q.shape[:3]):
        length, bits = int(lengths[b]), int(tree[b, row % count])
        drafts = [length + c for c in range(count) if bits >> c & 1]
        seen = [*range(length), *drafts]
        s = k[b, head, seen] @ q[b, head, row] / np.sqrt(q.shape[3])
        p = np.exp(s - s.max())
        o[b, head, row] = p @ v[b, head, seen] / p.sum()
    return o


@independent("ragged_visits")
def _(
    lengths: Any,
    cu_q_lens: Any,
    num_seqs: Any,
    *,
    T: int,  # noqa: N803
    bq: int,
    bkv: int,
    most: int,
) -> Any:
    """With loops over sequences, their tokens' blocks, and the keys that a block sees."""
    lengths, cu_q_lens = np.asarray(lengths), np.asarray(cu_q_lens)
    steps = []
    for seq in range(int(np.asarray(num_seqs)[0])):
        tokens = np.arange(cu_q_lens[seq], cu_q_lens[seq + 1])
        for block in np.unique(tokens // bq):
            position = lengths[seq] - len(tokens) + tokens - cu_q_lens[seq]
            seen = position[tokens // bq == block].max() + 1
            steps += [(seq, block, turn) for turn in range(-(-seen // bkv))]
    tables = np.zeros((3, (-(-T // bq) + len(lengths)) * most), np.int32)
    tables[:, : len(steps)] = np.array(steps).T
    return (*tables, np.int32(len(steps)))
