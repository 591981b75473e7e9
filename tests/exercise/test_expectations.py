"""What must come back, in float64, and how far float32's rounding of the inputs moves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.exercise.expectations import FURTHEST, ROUNDING, expectations
from grader.tools.arrays import to_numpy

X = np.linspace(1, 2, 64, dtype=np.float32)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def sway(spec: Callable[..., Any], *inputs: Any) -> float:
    _, (found,) = expectations(spec, inputs, {}, 1)
    return found


def test_results_are_those_in_float64_whatever_the_inputs_are() -> None:
    inputs = [X.astype(jnp.bfloat16), np.arange(64, dtype=np.int32)]
    (x, i), _ = expectations(lambda x, i: (x / 3, i * 2), inputs, {}, 1)
    np.testing.assert_array_equal(to_numpy(x), inputs[0].astype(np.float64) / 3)
    assert to_numpy(i).dtype == np.int32


def test_how_far_a_result_moves_follows_from_the_spec() -> None:
    copied = sway(lambda x: x, X)
    assert ROUNDING < copied <= 2 * ROUNDING
    scores = sway(lambda x: jnp.exp(150 * x - 300), X)
    assert 50 * ROUNDING < scores < 1000 * ROUNDING


def test_integers_and_what_integers_decide_do_not_move() -> None:
    assert sway(lambda i: i * 2, np.arange(64, dtype=np.int32)) == 0
    assert sway(lambda x: (x > 1.5).astype(jnp.int32), X) == 0


def test_a_choice_between_inputs_is_more_than_rounding() -> None:
    """Two nearly equal rows of which the larger is taken: either is far from the other."""

    def chosen(x: Any) -> Any:
        return jnp.where(x[0] > x[1], 1.0, -1.0)

    x = np.stack([np.ones(256), np.ones(256)]).astype(np.float32)
    assert sway(chosen, x) == FURTHEST


def test_what_is_no_number_stays_none() -> None:
    x = np.array([np.nan, np.inf, 1, 0], np.float32)
    assert ROUNDING / 10 < sway(lambda x: x, x) <= ROUNDING
    assert sway(lambda x: x, np.full(4, np.nan, np.float32)) == 0
