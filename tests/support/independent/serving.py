"""What the katas of 6_serving compute, by code that is not ours: numpy in float64."""

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


@independent("decode_attention")
def _(lengths: Any, q: Any, k: Any, v: Any) -> Any:
    """jax.nn's attention of each sequence alone, with the keys that are there."""
    attended = [
        jax.nn.dot_product_attention(
            q[b].reshape(1, 1, -1, q.shape[-1]),
            *(x[b, :, :length].transpose(1, 0, 2)[None] for x in (k, v)),
        )
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
