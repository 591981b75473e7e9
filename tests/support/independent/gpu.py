"""The results of the katas of 10_gpu by independent code: numpy and jax.nn."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tests.support.independent.registry import independent


@independent("threads_and_grids")
def _(x: Any) -> Any:
    return jax.nn.silu(x)


@independent("tma_copy")
def _(x: Any, y: Any) -> Any:
    return np.add(np.asarray(x), np.asarray(y))


@independent("pipelined_copy")
def _(x: Any) -> Any:
    return np.square(np.asarray(x)) * (np.asarray(x) > 0)


@independent("wgmma_matmul", "warp_specialised_matmul")
@independent("blackwell_tcgen05", "persistent_collective_matmul")
def _(a: Any, b: Any) -> Any:
    return np.einsum("mk,kn->mn", np.asarray(a, np.float64), np.asarray(b, np.float64))


@independent("flash_attention_hopper")
def _(q: Any, k: Any, v: Any, *, causal: int = 0) -> Any:
    q, k, v = (jax.numpy.swapaxes(x, 0, 1)[None] for x in (q, jax.numpy.swapaxes(k, 1, 2), v))
    o = jax.nn.dot_product_attention(q, k, v, is_causal=bool(causal))
    return jax.numpy.swapaxes(o[0], 0, 1)


@independent("ragged_dot_gpu")
def _(x: Any, w: Any, group_sizes: Any) -> Any:
    return jax.lax.ragged_dot(x, w, group_sizes)
