"""What must come back, in float64, and how far float32's rounding of the inputs moves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallascope.checks.compare import SWAYS
from pallascope.checks.expected_results import MAX_SWAY, ROUNDING, reference_function
from pallascope.tools.arrays import to_numpy

X = np.linspace(1, 2, 64, dtype=np.float32)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def sway(spec: Callable[..., Any], *inputs: Any) -> float:
    _, (found,) = reference_function(spec, inputs, {})(inputs, 1)
    return found


def test_results_are_those_in_float64_whatever_the_inputs_are() -> None:
    inputs = [X.astype(jnp.bfloat16), np.arange(64, dtype=np.int32)]
    (x, i), _ = reference_function(lambda x, i: (x / 3, i * 2), inputs, {})(inputs, 1)
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
    assert sway(chosen, x) == MAX_SWAY


def test_what_is_no_number_stays_none() -> None:
    x = np.array([np.nan, np.inf, 1, 0], np.float32)
    assert ROUNDING / 10 < sway(lambda x: x, x) <= ROUNDING
    assert sway(lambda x: x, np.full(4, np.nan, np.float32)) == 0


def normalized(h: Any, mean: Any) -> Any:
    y = h - mean
    return y / jnp.sqrt(jnp.mean(y * y, axis=1, keepdims=True))


def test_errors_of_a_sum_count_as_what_they_move_the_result_by() -> None:
    """The means are 300 times the deviation, and float32 adds them up from left to right."""
    x = (300 + np.random.default_rng(1).standard_normal((64, 512))).astype(np.float32)
    added = np.add.accumulate(x, axis=1)[:, -1:] / np.float32(512)
    exact = x.astype(np.float64)
    error = np.abs(normalized(x, added) - normalized(exact, exact.mean(1, keepdims=True))).max()
    found = sway(lambda x: normalized(x, jnp.mean(x, axis=1, keepdims=True)), x)
    assert error < SWAYS * found / 2
    assert SWAYS * found < 2.0**-8  # with bfloat16, the mean is off by a deviation


def test_a_sum_that_nothing_is_subtracted_from_moves_by_its_own_error() -> None:
    few, many = (sway(jnp.sum, np.ones(count, np.float32)) / count for count in (16, 1024))
    assert 4 * ROUNDING < few < 8 * ROUNDING
    assert 32 * ROUNDING < many < 64 * ROUNDING
