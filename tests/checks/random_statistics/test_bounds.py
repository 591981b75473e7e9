"""A right kernel is refused once in a million sessions, at most; and not far less often."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grader.checks.random_statistics import (
    QUESTIONS,
    SESSIONS,
    ErrorBudget,
    deviation,
)
from grader.exercise.answer_key import MAX_CASES


def tail(n: int, p: float, t: float) -> float:
    """The exact probability that a binomial lies at least t from its mean, by its logarithms."""
    k = np.arange(n + 1)
    ways = np.array([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k])
    terms = np.exp(ways + k * math.log(p) + (n - k) * math.log(1 - p))
    return float(terms[np.abs(k - n * p) >= t].sum())


@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("chance", [1e-3, 1e-8])
def test_no_binomial_lies_further_off_more_often(n: int, p: float, chance: float) -> None:
    variance = n * p * (1 - p)
    t = deviation(variance, max(p, 1 - p), chance)
    assert tail(n, p, t) <= chance
    if variance > 100:  # the bound is near to what is so: two thirds of it are passed too often
        assert tail(n, p, t * 2 / 3) > chance


def test_a_sessions_comparisons_cost_one_alarm_in_a_million() -> None:
    results, comparisons = 2, 1000
    each = 1 / (SESSIONS * MAX_CASES * QUESTIONS * results * comparisons)
    assert ErrorBudget(results).deviation(50.0, 0.9, comparisons) == deviation(50.0, 0.9, each)
    assert each * MAX_CASES * QUESTIONS * results * comparisons == pytest.approx(1e-6)
