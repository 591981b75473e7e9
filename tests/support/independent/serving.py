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
