"""XLA:CPU computes what a kernel says, as a TPU does: none of its rewrites reaches a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import Mode

INF, NAN = np.inf, np.nan
#: What each body makes of x under IEEE 754, with results that its rewritten form does not have.
BODIES: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "a mask times x": (lambda x: (x > 0).astype(x.dtype) * x, [NAN, -INF, 2], [NAN, NAN, 2]),
    "x times a mask": (lambda x: x * (x > 0), [NAN, -INF, 2], [NAN, NAN, 2]),
    "x times where": (lambda x: x * jnp.where(x > 0, 1.0, 0.0), [NAN, -INF, 2], [NAN, NAN, 2]),
    "a sum of masked x": (
        lambda x: jnp.sum(x * (x > 0), axis=1, keepdims=True) + jnp.zeros_like(x),
        [NAN, 1, 2],
        [NAN, NAN, NAN],
    ),
    "x times zero": (lambda x: x * 0, [NAN, INF, 2], [NAN, NAN, 0]),
    "zeros times x": (lambda x: jnp.zeros_like(x) * x, [NAN, INF, 2], [NAN, NAN, 0]),
    "x minus x": (lambda x: x - x, [NAN, INF, 2], [NAN, NAN, 0]),
    "x over x": (lambda x: x / x, [NAN, 0, 2], [NAN, NAN, 1]),
    "x plus a minus a": (lambda x: (x + 1e8) - 1e8, [1, 2, 8], [0, 0, 8]),
    "x times a times b": (lambda x: (x * 1e30) * 1e-30, [1e30, -1e30, 0], [INF, -INF, 0]),
    "x times a over a": (lambda x: (x * 1e30) / 1e30, [1e30, -1e30, 0], [INF, -INF, 0]),
    "the log of exp": (lambda x: jnp.log(jnp.exp(x)), [200, -200, 0], [INF, -INF, 0]),
    "exp over exp": (lambda x: jnp.exp(x) / jnp.exp(x), [200, -200, 0], [NAN, NAN, 1]),
    "exp times exp": (lambda x: jnp.exp(x) * jnp.exp(-x), [200, -200, 0], [NAN, NAN, 1]),
    "a maximum": (lambda x: jnp.maximum(x, 0), [NAN, -INF, 2], [NAN, 0, 2]),
    "a row's maximum": (
        lambda x: jnp.max(x, axis=1, keepdims=True) + jnp.zeros_like(x),
        [1, NAN, 2],
        [NAN, NAN, NAN],
    ),
    "a dot with zeros": (
        lambda x: jnp.dot(x, jnp.zeros((128, 128), x.dtype)),
        [NAN, 1, 1],
        [NAN, NAN, NAN],
    ),
    "to bfloat16 and back": (
        lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
        [1.001, 257, 2],
        [1, 256, 2],
    ),
    "a sum in bfloat16": (
        lambda x: ((x.astype(jnp.bfloat16) + 1) + 1).astype(jnp.float32),
        [256, 512, 2],
        [256, 512, 4],
    ),
}


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def launch(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = body(x_ref[...])

    return lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET])
def test_what_xla_would_rewrite_is_computed_as_written(mode: Mode) -> None:
    """All of them in one program: compiling is what takes the time."""
    x = np.ones((len(BODIES), 8, 128), np.float32)
    wanted = np.ones((len(BODIES), 3))
    for number, (_, given, results) in enumerate(BODIES.values()):
        x[number, :, :3], wanted[number] = given, results

    def all_bodies(x: Any) -> Any:
        return [launch(body)(x[number]) for number, (body, _, _) in enumerate(BODIES.values())]

    with for_chip("TPU v5 lite", 1):
        found = TracedLaunch.of(all_bodies, [x], {}).run([x], mode, 1)
    for name, got, results in zip(BODIES, found, wanted, strict=True):
        np.testing.assert_array_equal(got[0, :3], results, err_msg=name)
