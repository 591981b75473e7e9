"""Thirty steps of a regression whose layer is in fp8 follow those of the layer in bfloat16."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from grader.exercise.catalog import katas
from pallascope.tools.files import load_module
from tests.support.repositories import ROOT

M, K, N = 512, 128, 256
STEPS, RATE, NOISE = 30, 0.5, 0.3
NAME = "block_scaled_training_step"

Layer = Callable[[Any, Any], Any]


@pytest.fixture
def fp8_layer(monkeypatch: pytest.MonkeyPatch) -> Layer:
    """The solution's matmul, differentiable, in the plain interpreter: it is traced as XLA's."""
    monkeypatch.setattr(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True))
    (exercise,) = (kata for kata in katas(ROOT, "solutions") if kata.name == NAME)
    return load_module(exercise.solution).differentiable_matmul(bm=256, bk=128, bn=128)


def losses_of(layer: Layer) -> np.ndarray[Any, Any]:
    """The loss before each step of gradient descent on weights in float32, cast for the layer."""
    x_key, w_key, noise_key = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(x_key, (M, K))
    wanted = x @ (jax.random.normal(w_key, (K, N)) * K**-0.5)
    wanted += NOISE * jax.random.normal(noise_key, (M, N))

    def loss(w: Any) -> Any:
        y = layer(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16))
        return jnp.mean((y.astype(jnp.float32) - wanted) ** 2)

    def step(w: Any, _: None) -> Any:
        now, gradient = jax.value_and_grad(loss)(w)
        return w - RATE * N / 2 * gradient, now

    _, losses = jax.jit(lambda w: jax.lax.scan(step, w, None, length=STEPS))(jnp.zeros((K, N)))
    return np.asarray(losses)


def test_thirty_steps_follow_bfloat16(fp8_layer: Layer) -> None:
    bfloat16 = losses_of(lambda x, w: x @ w)
    in_fp8 = losses_of(fp8_layer)
    assert bfloat16[-1] < 0.1 * bfloat16[0]
    np.testing.assert_allclose(in_fp8, bfloat16, rtol=0.05)
