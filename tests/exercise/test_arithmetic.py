"""Arithmetic over names: Python's own, of the little that is allowed."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.exercise.arithmetic import arithmetic_names, evaluate

SIZES = {"bm": 8, "M": 24, "K": 5}
numbers = st.integers(0, 99).map(str)
arithmetic = st.recursive(
    numbers | st.sampled_from(sorted(SIZES)),
    lambda part: st.one_of(
        st.builds("{} {} {}".format, part, st.sampled_from("+-*"), part),
        st.builds("({})".format, part),
        st.builds("({}) // {}".format, part, st.integers(1, 9)),
    ),
    max_leaves=8,
)


@settings(deadline=None, database=None)
@given(arithmetic)
def test_arithmetic_means_what_it_means_in_python(text: str) -> None:
    assert evaluate(text, SIZES) == eval(text, {}, SIZES)
    tree = ast.walk(ast.parse(text))
    assert arithmetic_names(text) == {n.id for n in tree if isinstance(n, ast.Name)}


@pytest.mark.parametrize("text", ["", "2 3", "a b", "a, b", "a if b else c", "'a'", "-a", "a ** 2"])
def test_no_arithmetic_is_a_value_error_that_shows_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"arithmetic|only names|isn't a whole number") as raised:
        arithmetic_names(text)
    assert repr(text) in str(raised.value)
