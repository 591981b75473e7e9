"""Pallas TPU kernels of packages on PyPI: `Pallas` has no complaint about right ones.

The stage `packages` of .ci/stages.sh installs them each night. Without a package, its tests are
skipped.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallascope import Pallas

BF16, I32 = jnp.bfloat16, jnp.int32
SIZES = np.array([100, 0, 156, 256], np.int32)
TOKAMAX = "tokamax._src.ops"
SPLASH = f"{TOKAMAX}.experimental.tpu.splash_attention.splash_attention_"
EJKERNEL = "ejkernel.kernels._pallas.tpu"


@pytest.fixture
def pallas() -> Pallas:
    return Pallas(seed=1)


def module(name: str) -> Any:
    """A module of a package that is installed; otherwise the test is skipped."""
    pytest.importorskip(name.partition(".")[0])
    return importlib.import_module(name)


def attention(q: Any, k: Any, v: Any, mask: Any = True, scale: float = 1.0) -> Any:
    """Attention of [heads, length, width]; `mask` says which keys a query sees."""
    scores = jnp.where(mask, scale * jnp.einsum("hqd,hkd->hqk", q, k), -1e30)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def causal(length: int, window: int = 0) -> Any:
    seen = np.tril(np.ones((length, length), bool))
    return seen & ~np.tril(seen, -window - 1) if window else seen


def heads(pallas: Pallas, length: int) -> list[Any]:
    return [pallas.normal((2, length, 128), scale=scale) for scale in (0.1, 1, 1)]


# ---- tokamax ----


def splash(length: int, window: int = 0) -> Callable[..., Any]:
    kernels, masks = module(f"{SPLASH}kernel"), module(f"{SPLASH}mask")
    names = ["q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute"]
    blocks = dict.fromkeys((f"block_{name}" for name in names), 128)
    config = dataclasses.replace(kernels.SplashConfig.get_default(), **blocks)
    shape = (length, length)
    mask = masks.LocalMask(shape, (window, 0), 0) if window else masks.CausalMask(shape)
    made = kernels.make_splash_mha_single_device(mask, config=config)
    return lambda q, k, v: made(q, k, v)


@pytest.mark.parametrize("window", [0, 100])
def test_tokamax_splash_attention(pallas: Pallas, window: int) -> None:
    expected = functools.partial(attention, mask=causal(384, window))
    pallas.check(splash(384, window), *heads(pallas, 384), expected=expected)


def test_tokamax_splash_attention_backward(pallas: Pallas) -> None:
    expected = functools.partial(attention, mask=causal(256))
    pallas.grad_check(splash(256), *heads(pallas, 256), expected=expected)


def by_group(lhs: Any, rhs: Any, sizes: Any, *_: Any) -> Any:
    """Each row of lhs, multiplied by its group's matrix."""
    group = jnp.searchsorted(jnp.cumsum(sizes), jnp.arange(len(lhs)), side="right")
    products = (jnp.where((group == g)[:, None], lhs @ rhs[g], 0) for g in range(len(rhs)))
    return sum(products)


def grouped(pallas: Pallas, name: str, inner: int, width: int) -> None:
    kernel = getattr(module(f"{TOKAMAX}.ragged_dot.pallas_mosaic_tpu_kernel"), name)
    how = {"precision": jax.lax.Precision.DEFAULT, "out_dtype": BF16, "tiling": (128, 128, 128)}
    x, w = pallas.normal((512, inner), BF16), pallas.normal((4, inner, width), BF16)
    pallas.check(functools.partial(kernel, **how), x, w, SIZES, expected=by_group)


@pytest.mark.parametrize(("inner", "width"), [(256, 128), (200, 192)])
def test_tokamax_grouped_matmul(pallas: Pallas, inner: int, width: int) -> None:
    grouped(pallas, "gmm", inner, width)


def test_tokamax_cross_entropy(pallas: Pallas) -> None:
    name = "linear_softmax_cross_entropy_loss"
    kernels = module(f"{TOKAMAX}.{name}.pallas_mosaic_tpu_kernel")
    kernel = getattr(kernels, f"{name}_fwd_pallas_mosaic_tpu")

    def expected(x: Any, labels: Any, w: Any) -> Any:
        logits = x @ w
        sums = jax.nn.logsumexp(logits, -1)
        return jnp.sum(sums - jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]), sums

    x, w = pallas.normal((256, 256)), pallas.normal((256, 512), scale=0.05)
    how = {"b_block_size": 128, "h_block_size": 128, "v_block_size": 256}
    labels = pallas.integers(0, 512, (256,))
    pallas.check(functools.partial(kernel, **how), x, labels, w, expected=expected)


# ---- recurrentgemma ----


def recurrence(x: Any, a: Any) -> Any:
    """All states h = a h + x along the second dimension, and the last one."""

    def step(h: Any, given: Any) -> Any:
        h = given[1] * h + given[0]
        return h, h

    given = x.swapaxes(0, 1), a.swapaxes(0, 1)
    last, states = jax.lax.scan(step, jnp.zeros_like(x[:, 0]), given)
    return states.swapaxes(0, 1), last


def test_recurrentgemma_linear_recurrence(pallas: Pallas) -> None:
    kernel = module("recurrentgemma.jax.pallas").lru_pallas_scan
    x, a = pallas.normal((2, 128, 256)), jax.nn.sigmoid(pallas.normal((2, 128, 256)))
    pallas.check(kernel, x, a, expected=recurrence)
    states, short = (lambda x, a: kernel(x, a)[0]), (x[:, :64], a[:, :64])
    pallas.grad_check(states, *short, expected=lambda x, a: recurrence(x, a)[0])


# ---- ejkernel ----


def test_ejkernel_flash_attention(pallas: Pallas) -> None:
    """Its gradient needs pltpu.repeat, which jax no longer has."""
    kernel = functools.partial(module(f"{EJKERNEL}.flash_attention").flash_attention, causal=True)

    def expected(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (each[0].swapaxes(0, 1) for each in (q, k, v))
        return attention(q, k, v, causal(256), 128**-0.5).swapaxes(0, 1)[None]

    given = [each.swapaxes(0, 1)[None] for each in heads(pallas, 256)]
    pallas.check(kernel, *given, expected=expected)


@pytest.mark.parametrize("name", ["grouped_matmul", "grouped_matmulv2", "grouped_matmulv3"])
def test_ejkernel_grouped_matmul(pallas: Pallas, name: str) -> None:
    """The third reads the row after a full tile, and drops it."""
    kernel = getattr(module(f"{EJKERNEL}.{name}"), name)
    x, w = pallas.normal((512, 256), BF16), pallas.normal((4, 256, 128), BF16)
    ignore = ("bounds",) if name.endswith("3") else ()
    pallas.check(kernel, x, w, SIZES, expected=by_group, ignore=ignore)
