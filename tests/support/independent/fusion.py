"""Layers and optimisers of 2_fusion by independent code: jax.lax, jax.nn, optax."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.support.independent.registry import INDEPENDENT, independent


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


@independent("row_softmax")
def _(x: Any) -> Any:
    return jnp.exp(jax.nn.log_softmax(x, axis=1))


@independent("softmax_backward")
def _(x: Any, dp: Any) -> Any:
    """With the square of derivatives of each row, in full."""
    p = jnp.exp(jax.nn.log_softmax(x, axis=1))
    square = jax.vmap(jnp.diag)(p) - p[:, :, None] * p[:, None, :]
    return p, jnp.einsum("mnk,mk->mn", square, dp)


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


@independent("linear_cross_entropy")
def _(x: Any, w: Any, labels: Any) -> Any:
    """By optax, which knows nothing of labels to be ignored."""
    logits = x @ w.T
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(labels[0], 0))
    return jnp.where(labels == -100, 0, loss), jax.nn.logsumexp(logits, axis=1)[None]


@independent("linear_cross_entropy_backward")
def _(x: Any, w: Any, labels: Any, dloss: Any) -> Any:
    """By one-hot rows, which are all 0 for a label to be ignored."""
    onehot = jax.nn.one_hot(labels[0], len(w))
    logits = x @ w.T
    loss = optax.safe_softmax_cross_entropy(logits, onehot)
    d = (jax.nn.softmax(logits) * onehot.sum(axis=1, keepdims=True) - onehot) * dloss.T
    return loss[None], d @ w, d.T @ x


@independent("fused_adam")
def _(p: Any, g: Any, m: Any, v: Any, numbers: Any) -> Any:
    """optax's Adam, in the step that the numbers are of."""
    rate, m_weight, _ = numbers[0]
    before = round(math.log(1 - float(m_weight), 0.9)) - 1
    adam: Any = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)
    states = adam.init(p)._replace(count=jnp.int32(before), mu=m, nu=v)
    change, states = adam.update(g, states)
    return p - rate * change, states.mu, states.nu


@independent("adafactor_factors")
def _(g: Any) -> Any:
    """The state of optax's Adafactor after its first step, which discards the state before."""
    factored: Any = optax.scale_by_factored_rms(min_dim_size_to_factor=1, epsilon=0)
    _, state = factored.update(g, factored.init(g), g)
    sums = {len(sum_): sum_ for sum_ in (state.v_row, state.v_col)}
    return sums[len(g)][:, None], sums[g.shape[1]][None]


@independent("conv2d")
def _(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@independent("swiglu")
def _(x: Any, gate: Any, up: Any) -> Any:
    """Both products at once, halved by `jax.nn.glu`, which gates with a sigmoid."""
    z = x @ gate
    return z * jax.nn.glu(jnp.concatenate([x @ up, z], axis=1))


@independent("fused_outer_backward")
def _(x: Any, y: Any, dz: Any) -> Any:
    """By matmuls with the mask, where the product's sign is that of both factors."""
    passed = dz * (jnp.sign(x) == jnp.sign(y))
    return jnp.maximum(x * y, 0), passed @ y.T, x.T @ passed


@independent("cumulative_sum")
def _(x: Any) -> Any:
    return jax.lax.cumsum(x, axis=1)


@independent("causal_conv1d")
def _(x: Any, w: Any) -> Any:
    """By XLA's convolution, with a group for each channel."""
    return jax.lax.conv_general_dilated(
        x,
        w[:, None],
        window_strides=(1,),
        padding=[(len(w) - 1, 0)],
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=x.shape[2],
    )


@independent("swiglu_backward")
def _(z: Any, u: Any, gate: Any, up: Any, do: Any) -> Any:
    """From the gradient of the sum of o * do; one product with both weights."""

    def loss(z: Any, u: Any) -> Any:
        return jnp.sum(z / (1 + jnp.exp(-z)) * u * do)

    dz, du = jax.grad(loss, (0, 1))(z, u)
    return dz, du, jnp.concatenate([dz, du], 1) @ jnp.concatenate([gate, up], 1).T
