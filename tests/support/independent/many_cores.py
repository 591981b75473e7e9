"""The results of the katas of 9_many_cores by independent code: jax.lax and numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from tests.support.independent.registry import independent


@independent("kernel_in_shard_map")
def _(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    x, w1, b1, w2, b2 = (np.asarray(array, np.float64) for array in (x, w1, b1, w2, b2))
    hidden = np.clip(np.einsum("mk,kh->mh", x, w1) + b1, 0, None)
    return np.einsum("mh,hn->mn", hidden, w2) + b2


@independent("parallel_race")
def _(x: Any) -> Any:
    return np.linalg.norm(np.asarray(x, np.float64)).reshape(1, 1) ** 2


@independent("core_mesh")
def _(x: Any, g: Any) -> Any:
    x, g = np.asarray(x, np.float64), np.asarray(g, np.float64)
    return x * (1 + np.tanh(g / 2)) / 2


@independent("sharded_vmap")
def _(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (np.asarray(array, np.float64) for array in (q, k, v))
    result = np.empty_like(q)
    for b, h in np.ndindex(*q.shape[:2]):
        of = h * k.shape[1] // q.shape[1]
        weights = np.exp(q[b, h] @ k[b, of].T / np.sqrt(q.shape[3]))
        result[b, h] = weights @ v[b, of] / weights.sum(1, keepdims=True)
    return result


def _on_four(function: Callable[[Any], Any], parts: Any) -> Any:
    """A function of one chip, run on four with jax.lax's collectives, on the part of each."""
    return jax.vmap(function, axis_name="x")(parts)


@independent("right_permute")
def _(x: Any) -> Any:
    to_right = [(0, 1), (1, 2), (2, 3), (3, 0)]
    parts = x.reshape(4, -1, x.shape[1])
    return _on_four(lambda part: lax.ppermute(part, "x", to_right), parts).reshape(x.shape)


@independent("ring_all_gather")
def _(x: Any) -> Any:
    return _on_four(lambda part: lax.all_gather(part, "x"), x).reshape(16, *x.shape[1:])


@independent("all_gather_both_ways")
def _(x: Any) -> Any:
    """Each chip collects the blocks with ppermute, by their distance to the left."""

    def gather(part: Any) -> Any:
        me = lax.axis_index("x")
        rings = [[(chip, (chip + k) % 4) for chip in range(4)] for k in range(4)]
        came = jax.numpy.stack([lax.ppermute(part, "x", ring) for ring in rings])
        return came[(me - jax.numpy.arange(4)) % 4]

    return _on_four(gather, x).reshape(16, *x.shape[1:])


@independent("reduce_scatter")
def _(x: Any) -> Any:
    summed = _on_four(lambda part: lax.psum_scatter(part, "x", tiled=True), x)
    return summed.reshape(x.shape[1:])


@independent("all_to_all")
def _(x: Any) -> Any:
    return _on_four(lambda part: lax.all_to_all(part, "x", 0, 0), x)


@independent("all_gather_matmul")
def _(x: Any, w: Any) -> Any:
    return np.einsum("mk,kn->mn", np.asarray(x, np.float64), np.asarray(w, np.float64))


@independent("reduce_scatter_matmul")
def _(x: Any, w: Any) -> Any:
    x, w = (np.asarray(array, np.float64) for array in (x, w))
    summed = np.zeros((x.shape[0], w.shape[1]))
    for columns, rows in zip(np.split(x, 4, axis=1), np.split(w, 4), strict=True):
        summed += np.einsum("mk,kn->mn", columns, rows)
    return summed


@independent("ring_attention")
def _(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    o = np.empty_like(q)
    for head, token in np.ndindex(*q.shape[:2]):
        scores = k[head, : token + 1] @ q[head, token] / np.sqrt(q.shape[2])
        weights = np.exp(scores - scores.max())
        o[head, token] = weights @ v[head, : token + 1] / weights.sum()
    return o


@independent("expert_parallel_moe")
def _(x: Any, w: Any, expert: Any, gate: Any) -> Any:
    x, w, gate = (np.asarray(array, np.float64) for array in (x, w, gate))
    return np.einsum("td,tdf,t->tf", x, w[np.asarray(expert)], gate)
