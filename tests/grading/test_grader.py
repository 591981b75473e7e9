"""A case of production size: read, compiled and predicted, and never run."""

from __future__ import annotations

import pytest

from grader.exercise.cases import draw
from grader.grading.grader import Grader
from grader.verdict import MAX_STARS, State
from pallascope.model import Check
from pallascope.tpu import compiler
from tests.support.repositories import Repository

LARGE = "\n[production]\nbm = 256\nM = 8192\nN = 2048\n"

NO_LIBTPU = compiler.unavailable_reason()
needs_libtpu = pytest.mark.skipif(bool(NO_LIBTPU), reason="libtpu is not installed")


@needs_libtpu
def test_values_are_asked_of_small_cases_and_par_of_the_large_one(
    repository: Repository, grader: Grader
) -> None:
    kata = repository.add("double", key=repository.KEY + LARGE)
    repository.solve(kata, "o_ref[...] = x_ref[...] * 3")
    *small, large = draw(kata.id, kata.key, 1)
    wrong = grader.grade(kata, small[0], 60)
    assert (wrong.state, wrong.cost) == (State.FAILED, None)
    assert wrong.finding
    assert wrong.finding.check is Check.VALUES
    sampled = grader.grade(kata, large, 60)
    assert (sampled.state, sampled.cost) == (State.FAILED, None)
    assert sampled.finding
    assert "At production size" in sampled.finding.message
    repository.solve(kata)
    right = grader.grade(kata, small[0], 60)
    assert (right.stars, right.cost) == (MAX_STARS, None)
