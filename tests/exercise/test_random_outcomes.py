"""What the function NAME_outcomes of a kata says of its random results."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.exercise.drawn_inputs import outcomes_of
from pallascope.tools.arrays import to_numpy

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def test_parts_are_broadcast_and_in_float64() -> None:
    def outcomes(x: Any, *, percent: int) -> list[Any]:
        return [(0, x / 3, percent / 100), None]

    random, certain = outcomes_of(outcomes, [X], {"percent": 30}, [X.shape, (4,)])
    assert certain is None
    assert random
    assert np.array_equal(to_numpy(random.low), np.zeros(X.shape))
    assert np.array_equal(to_numpy(random.high), X.astype(np.float64) / 3)
    assert np.array_equal(to_numpy(random.chance), np.full(X.shape, 0.3))


def test_bits_of_float32_can_be_looked_at() -> None:
    def outcomes(x: Any) -> list[Any]:
        bits = jax.lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)
        return [(x, x, (bits & jnp.uint32(0xFFFF)) / 65536)]

    (found,) = outcomes_of(outcomes, [np.array([1 + 2**-9], np.float32)], {}, [(1,)])
    assert found
    assert to_numpy(found.chance) == [0.25]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ((0, 1, 0.5), "a list with an entry for each of 1 results"),
        ([], "a list with an entry for each of 1 results"),
        ([(0, 1)], "an entry is"),
        ([[0, 1, 0.5]], "an entry is"),
        ([(0, 1, 1.5)], "between 0 and 1"),
        ([(0, 1, float("nan"))], "between 0 and 1"),
        ([(0, np.ones((5, 7)), 0.5)], "broadcast"),
    ],
)
def test_what_is_no_such_list(returned: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        outcomes_of(lambda _: returned, [X], {}, [X.shape])
