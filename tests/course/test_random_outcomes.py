"""What katas with random results say of their chances is true, by numbers that are not theirs."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.specs import reference
from pallascope.checks.compare import ROUNDOFF
from pallascope.model import Outcomes, Reference
from pallascope.tools.arrays import dtype_of, in_float64
from pallascope.tools.files import load_module
from tests.support.repositories import ROOT

RANDOM = [kata for kata in katas(ROOT, "solutions") if kata.key.random]
EXACT = [kata for kata in RANDOM if kata.key.random and kata.key.random.exact]


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def references(exercise: Kata) -> list[Reference]:
    solution = load_module(exercise.solution)
    cases = draw(exercise.id, exercise.key, session_seed=1)
    return [reference(solution, exercise.name, c) for c in cases if not c.production]


def random_results(exercise: Kata) -> list[tuple[str, np.ndarray, Outcomes]]:
    """dtype, expected values and outcomes of each random result of a session."""
    return [
        (result.dtype, in_float64(expected), outcomes)
        for given in references(exercise)
        for result, expected, outcomes in zip(
            given.results, given.expected, given.outcomes, strict=True
        )
        if outcomes
    ]


@pytest.mark.parametrize("exercise", RANDOM, ids=lambda kata: kata.name)
def test_the_mean_is_what_the_spec_says(exercise: Kata) -> None:
    for dtype, expected, outcomes in random_results(exercise):
        low, high, chance = map(in_float64, (outcomes.low, outcomes.high, outcomes.chance))
        error = np.abs(low * (1 - chance) + high * chance - expected)
        assert (error <= ROUNDOFF[dtype] * np.abs(expected) + 1e-12).all()


@pytest.mark.parametrize("exercise", EXACT, ids=lambda kata: kata.name)
def test_between_exact_outcomes_lies_no_number(exercise: Kata) -> None:
    for dtype, _, outcomes in random_results(exercise):
        low, high = (
            in_float64(one).astype(dtype_of(dtype)) for one in (outcomes.low, outcomes.high)
        )
        for rounded, exact in ((low, outcomes.low), (high, outcomes.high)):
            assert np.array_equal(rounded.astype(np.float64), in_float64(exact))
        bits = f"int{8 * dtype_of(dtype).itemsize}"
        steps = high.view(bits).astype(np.int64) - low.view(bits).astype(np.int64)
        assert (steps == 1).all()


def test_there_are_such() -> None:
    assert {kata.name for kata in RANDOM} >= {"dropout", "stochastic_rounding"}
