"""The specs of most tracks agree with code that is not ours.

So do the solutions, which are graded against them: `tools/benchmarks/cross_check.py` prints their
own errors, in all dtypes.
"""

from __future__ import annotations

import pytest

from grader.exercise.catalog import Kata, katas
from tests.support.crosschecking import CLOSE, error_of_spec
from tests.support.independent import INDEPENDENT
from tests.support.repositories import ROOT

COMPARED = [kata for kata in katas(ROOT, "solutions") if kata.name in INDEPENDENT]


@pytest.mark.parametrize("exercise", COMPARED, ids=lambda kata: kata.name)
def test_spec_agrees(exercise: Kata) -> None:
    assert error_of_spec(exercise, "float32") <= CLOSE["float32"]


def test_every_kernel_that_others_have_too_is_compared() -> None:
    ours_alone = ("1_basics", "5_pipelines")
    every = katas(ROOT, "solutions")
    kernels = {kata.name for kata in every if kata.track not in ours_alone and kata.key.kernel}
    assert kernels <= set(INDEPENDENT)
