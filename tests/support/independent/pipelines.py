"""The results of the katas of 5_pipelines by independent code: jax.nn, numpy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tests.support.independent.registry import independent


@independent("two_spellings")
def _(x: Any, y: Any, b: Any) -> Any:
    return jax.nn.relu(x + b) * y


@independent("memory_spaces")
def _(x: Any) -> Any:
    return jax.nn.glu(x, axis=1)


@independent("async_copy")
def _(x: Any, w: Any) -> Any:
    return np.einsum("mk,kn->mn", np.asarray(x, np.float64), np.asarray(w, np.float64))


@independent("double_buffer")
def _(x: Any, w: Any) -> Any:
    return jax.nn.relu(x @ np.diag(np.asarray(w)[0]))


@independent("ring_of_slots")
def _(x: Any, p: Any) -> Any:
    x, (shift, scale) = np.asarray(x, np.float64), np.asarray(p, np.float64)
    return np.stack([(row - shift) * scale for row in x])


@independent("row_gather")
def _(ids: Any, table: Any) -> Any:
    chosen = np.asarray(ids)[:, None] == np.arange(table.shape[0])
    return np.einsum("bv,vsl->bsl", chosen, np.asarray(table, np.float64))


@independent("nested_pipeline")
def _(x: Any, y: Any) -> Any:
    return np.tril(np.asarray(x, np.float64)) @ np.asarray(y, np.float64)


@independent("fit_vmem", "lookahead")
def _(experts: Any, x: Any, w: Any) -> Any:
    ids = np.repeat(np.asarray(experts), len(x) // len(experts))
    rows = np.asarray(x, np.float64)
    return np.stack([row @ np.asarray(w[e], np.float64) for row, e in zip(rows, ids, strict=True)])


@independent("tune_blocks")
def _(x: Any, y: Any) -> Any:
    return np.einsum("mk,kn->mn", np.asarray(x, np.float64), np.asarray(y, np.float64))


@independent("emit_pipeline")
def _(lens: Any, x: Any, w: Any) -> Any:
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    return np.stack([x[e, :, :n] @ w[e, :n] for e, n in enumerate(np.asarray(lens))])


@independent("find_the_wait")
def _(g: Any, u: Any, s: Any) -> Any:
    g, u, s = (np.asarray(array, np.float64) for array in (g, u, s))
    return g / (1 + np.exp(-g)) * (u @ np.diag(s[0]))


@independent("dynamic_blocks")
def _(starts: Any, x: Any) -> Any:
    sequences = np.split(np.asarray(x, np.float64), np.asarray(starts)[1:-1])
    return np.concatenate([rows / np.abs(rows).max(0, initial=0) for rows in sequences])
