"""What the katas of 9_many_cores compute, by code that is not ours: numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.independent.registry import independent


@independent("right_permute")
def _(x: Any) -> Any:
    first, second, third, last = np.split(np.asarray(x), 4)
    return np.concatenate([last, first, second, third])


@independent("ring_all_gather")
def _(x: Any) -> Any:
    return np.concatenate([np.asarray(x)] * 4)


@independent("reduce_scatter")
def _(x: Any) -> Any:
    return np.einsum("cmn->mn", np.asarray(x, np.float64))


@independent("all_to_all")
def _(x: Any) -> Any:
    return np.einsum("sdmn->dsmn", np.asarray(x))


@independent("all_gather_matmul")
def _(x: Any, w: Any) -> Any:
    return np.einsum("mk,kn->mn", np.asarray(x, np.float64), np.asarray(w, np.float64))


@independent("ring_attention")
def _(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    o = np.empty_like(q)
    for head, token in np.ndindex(*q.shape[:2]):
        scores = k[head, : token + 1] @ q[head, token] / np.sqrt(q.shape[2])
        weights = np.exp(scores - scores.max())
        o[head, token] = weights @ v[head, : token + 1] / weights.sum()
    return o
