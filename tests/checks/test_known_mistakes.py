"""A wrong result is told to be that of a known mistake only where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallascope.checks.compare import Comparison, Sum, tolerance
from pallascope.checks.diagnoses import Diagnosis
from pallascope.checks.values import alike, check, known_mistake
from pallascope.model import Repaired, Roundings
from tests.pallascope.support.calls import array
from tests.support.factories import X, attempt, evidence

WRONG = X + np.abs(X).mean() * (X > 1)


def comparison(actual: Any, expected: Any = X, dtype: str = "float32") -> Comparison:
    allowed = tolerance(expected, dtype, Roundings(), Sum())
    return Comparison("o_ref", dtype, actual, expected, allowed, (8, 128))


def changed(values: Any, value: float) -> Any:
    other = values.copy()
    other[0, 0] = value
    return other


@pytest.mark.parametrize(
    ("got", "other", "same"),
    [
        (WRONG, WRONG, True),
        (WRONG, WRONG * (1 + 2e-7), True),
        (WRONG, X, False),
        (WRONG, changed(WRONG, 5.0), False),
        (X * 100, X * (100 + 1e-5), True),
        (changed(X, np.nan), changed(X, np.nan), True),
        (changed(X, np.nan), X, False),
        (changed(X, np.inf), changed(X, np.inf), True),
        (changed(X, np.inf), changed(X, -np.inf), False),
        (WRONG, WRONG[:8], False),
    ],
)
def test_results_are_alike_up_to_rounding(got: Any, other: Any, same: bool) -> None:
    assert alike(comparison(got), array(other)) is same


def test_rounding_errors_are_not_alike() -> None:
    """Both are as wrong as bfloat16 makes them, each in its own way."""
    one = X.astype(ml_dtypes.bfloat16).astype(np.float64)
    other = (X * 1.0001).astype(ml_dtypes.bfloat16).astype(np.float64)
    wanted = comparison(one, dtype="bfloat16")
    assert alike(wanted, array(one))
    assert not alike(comparison(one), array(other))


def test_the_title_is_told_before_what_is_vague() -> None:
    results = [comparison(WRONG)]
    told = known_mistake(results, lambda agrees: "adds" if agrees((array(WRONG),)) else "", None)
    assert told == Diagnosis("your kernel adds", "Your result matches that mistake exactly.")
    vague = Diagnosis("off", "It is off.", vague=True)
    told = known_mistake(results, lambda _: "adds", vague)
    assert told
    assert told.phrase == "your kernel adds"
    assert told.why == "Your result matches that mistake exactly: off."
    assert known_mistake(results, lambda agrees: "x" * agrees((array(X),)), vague) == vague
    assert known_mistake(results, lambda agrees: "x" * agrees(()), None) is None


def test_a_guess_is_not_told_after_the_title() -> None:
    """Its cause may contradict the mistake."""
    guess = Diagnosis("rounded", "Perhaps it was rounded.", vague=True, guess=True)
    results = [comparison(WRONG)]
    told = known_mistake(results, lambda _: "adds", guess)
    assert told == Diagnosis("your kernel adds", "Your result matches that mistake exactly.")


@pytest.mark.parametrize("value", [np.nan, 0.0, 7.0])
def test_few_values_dont_prove_a_mistake(value: float) -> None:
    """All NaN, all zeros or one wrong number may have many causes."""
    alone = changed(X, 7.0) if value == 7 else np.full_like(X, value)
    told = known_mistake([comparison(alone)], lambda _: "adds", None)
    assert told
    assert told.phrase == "perhaps your kernel adds"
    assert "exactly" not in told.why
    told = known_mistake([comparison(alone)], lambda _: "adds", None, lambda: True)
    assert told == Diagnosis("your kernel adds", "Your result matches that mistake exactly.")


def test_a_change_is_tried_where_few_values_are_wrong() -> None:
    given = replace(evidence(attempt(changed(2 * X, 7.0))), resembles=lambda _: "adds")
    told = check(given)
    assert told
    assert told.phrase == "perhaps your kernel adds"
    repaired = Repaired("had <= instead of <", 12, (array(2 * X),))
    told = check(replace(given, repaired=lambda: repaired))
    assert told
    assert told.phrase == "right, if line 12 had <= instead of <"
