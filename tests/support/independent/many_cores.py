"""What the katas of 9_many_cores compute, by code that is not ours: numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.independent.registry import independent


@independent("parallel_race")
def _(x: Any) -> Any:
    return np.linalg.norm(np.asarray(x, np.float64)).reshape(1, 1) ** 2


@independent("core_mesh")
def _(x: Any, g: Any) -> Any:
    x, g = np.asarray(x, np.float64), np.asarray(g, np.float64)
    return x * (1 + np.tanh(g / 2)) / 2


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
