"""Which inputs of production size have no contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.exercise.drawn_inputs import LARGE, drawn, drawn_or_abstract, is_abstract

KEY = jax.random.key(3, impl="rbg")


@pytest.mark.parametrize("shapes", ["known", "drawn"])
@pytest.mark.parametrize("rows", [16, LARGE])
def test_large_floats_are_left_out_and_tables_stay(shapes: str, rows: int) -> None:
    def make(key: Any) -> list[Any]:
        x = jax.random.normal(key, (rows, 4)).astype(jnp.bfloat16)
        # Tracing cannot say how many there are where that depends on what is drawn.
        more = int(0 * x[0, 0]) if shapes == "drawn" else 0
        return [x, jnp.arange(rows + more)]

    x, table = drawn_or_abstract(make, KEY)
    assert (x.dtype, x.shape) == (jnp.bfloat16, (rows, 4))
    assert is_abstract(x) is (rows == LARGE)
    assert np.array_equal(table, np.arange(rows))


@pytest.mark.parametrize(("dtype", "left_out"), [("int8", True), ("bool", False), ("int32", False)])
def test_of_integers_those_are_left_out_that_are_too_narrow_for_tables(
    dtype: str, left_out: bool
) -> None:
    for rows in (16, LARGE):
        (x,) = drawn_or_abstract(lambda _, rows=rows: [jnp.ones((rows, 2), dtype)], KEY)
        assert (x.dtype, x.shape) == (dtype, (rows, 2))
        assert is_abstract(x) is (left_out and rows == LARGE)


#: How many zeros there are: always none, but known only of drawn numbers.
NONE: Mapping[str, Callable[[Any], int]] = {
    "known": lambda x: 0,
    "a number": lambda x: int(x[0, 0] > 9),
    "a mask": lambda x: len(x[x > 9]),
    "numpy": lambda x: int(np.max(np.asarray(x)) > 9),
}


@pytest.mark.parametrize("count", NONE)
def test_inputs_are_compiled_as_a_whole_where_nothing_depends_on_what_is_drawn(count: str) -> None:
    traced: list[bool] = []

    def make(key: Any) -> list[Any]:
        x = jax.random.normal(key, (4, 8))
        traced.append("Tracer" in type(x).__name__)
        return [x, jnp.zeros(NONE[count](x))]

    x, empty = drawn(make, KEY)
    assert traced == ([True] if count == "known" else [True, False])
    assert empty.shape == (0,)
    assert np.array_equal(x, jax.random.normal(KEY, (4, 8)))


def test_what_making_inputs_raises_is_raised() -> None:
    def make(key: Any) -> list[Any]:
        raise ValueError("no such pattern")

    with pytest.raises(ValueError, match="no such pattern"):
        drawn(make, KEY)


def test_what_comes_of_products_is_left_out_however_small() -> None:
    def attended(q: Any, k: Any) -> Any:
        return jax.nn.logsumexp(q @ k.T, axis=1)

    def make(key: Any) -> list[Any]:
        q, k = jax.random.normal(key, (2, 8, 4))
        inner = jax.jit(attended)(q, k)  # a product inside another trace
        return [q, attended(q, k), inner, jnp.argmax(q @ k.T, axis=1), jnp.sum(q, axis=1)]

    found = drawn_or_abstract(make, KEY)
    assert [is_abstract(each) for each in found] == [False, True, True, False, False]
    assert found[1].shape == (8,)
    assert np.array_equal(found[3], make(KEY)[3])


def test_large_draws_are_not_made_where_shapes_are_drawn() -> None:
    drawn: list[Any] = []

    def make(key: Any) -> list[Any]:
        drawn.append(jax.random.normal(key, (2, LARGE)))
        return [drawn[-1], jnp.zeros(int(jax.random.randint(key, (), 1, 5)))]

    usual = jax.random.normal
    x, y = drawn_or_abstract(make, KEY)
    assert is_abstract(x)
    assert y.shape == make(KEY)[1].shape
    first, second = drawn[-2]
    assert np.array_equal(first, second), "one draw, repeated"
    assert not np.array_equal(*drawn[-1]), "afterwards, as ever"
    assert jax.random.normal is usual
