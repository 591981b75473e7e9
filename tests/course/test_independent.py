"""The specs of two tracks agree with code that is not ours.

So do the solutions, which are graded against them: `tests/benchmarks/cross_check.py` prints their
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


def test_every_kernel_of_two_tracks_is_compared() -> None:
    tracks = ("3_attention", "4_grouped_matmul")
    kernels = {k.name for k in katas(ROOT, "solutions") if k.track in tracks and k.key.kernel}
    assert kernels <= set(INDEPENDENT)
