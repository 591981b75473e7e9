"""Layers and optimisers of 2_fusion by code that is not ours: jax.lax, jax.nn, optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.independent import independent


@independent("rope")
def _(x: Any, cos: Any, sin: Any) -> Any:
    """A complex number for each pair."""
    half = cos.shape[1]
    turned = (x[..., :half] + 1j * x[..., half:]) * (cos + 1j * sin)
    return jnp.concatenate([turned.real, turned.imag], axis=-1)


@independent("top_k_route")
def _(logits: Any, *, K: int) -> Any:  # noqa: N803
    """Sorted, stably, all of them."""
    order = np.argsort(-np.asarray(logits, np.float64), axis=0, kind="stable")[:K]
    return jax.nn.softmax(jnp.take_along_axis(logits, order, axis=0), axis=0), order
