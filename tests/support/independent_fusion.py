"""Layers and optimisers of 2_fusion by code that is not ours: jax.lax, jax.nn, optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.independent import INDEPENDENT, independent


@independent("rms_norm")
def _(x: Any, w: Any) -> Any:
    """By the length of each row: sqrt(N) times the mean's root."""
    length = jnp.linalg.norm(x, axis=1, keepdims=True)
    return x * w / jnp.sqrt(length**2 / x.shape[1] + 1e-6)


@independent("rms_norm_backward")
def _(x: Any, w: Any, dy: Any) -> Any:
    """Forward mode: a direction in x and one in w at a time, by the length of each row."""
    y, along = jax.linearize(INDEPENDENT["rms_norm"], x, w)
    dx, dw = jax.linear_transpose(along, x, w)(dy)
    return y, dx, dw


@independent("layer_norm_residual")
def _(x: Any, r: Any, w: Any, b: Any) -> Any:
    """By `jax.nn.standardize`, given the variance: its own is the shortcut that cancels."""
    h = x + r
    variance = jnp.var(h, axis=1, keepdims=True)
    return h, jax.nn.standardize(h, axis=1, variance=variance, epsilon=1e-6) * w + b


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


@independent("swiglu")
def _(x: Any, gate: Any, up: Any) -> Any:
    """Both products at once, halved by `jax.nn.glu`, which gates with a sigmoid."""
    z = x @ gate
    return z * jax.nn.glu(jnp.concatenate([x @ up, z], axis=1))
