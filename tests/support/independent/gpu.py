"""What the katas of 10_gpu compute, by code that is not ours: numpy and jax.nn."""

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
def _(a: Any, b: Any) -> Any:
    return np.einsum("mk,kn->mn", np.asarray(a, np.float64), np.asarray(b, np.float64))
