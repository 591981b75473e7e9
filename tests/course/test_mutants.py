"""Katas that ask for a test: the solution's finds every planted kernel, by what it returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.mutants import AS_GIVEN, planted_of_case, planted_version
from grader.sandbox.client import WorkerClient
from pallascope.model import Observation, TrialVerdict
from tests.support.contract import demand
from tests.support.repositories import ROOT, with_text

TESTED = [kata for kata in katas(ROOT, "solutions") if kata.key.tested]
SECONDS = 60

each = pytest.mark.parametrize("exercise", TESTED, ids=lambda kata: kata.name)


@each
def test_planted_kernels_fit_the_file(exercise: Kata) -> None:
    assert exercise.key.tested
    text = exercise.solution.read_text()
    for planted in exercise.key.tested.planted:
        demand(
            planted_version(text, planted) != text,
            exercise.key_path,
            f"the planted kernel {planted.title!r} is the one that is given",
            "Have `new` differ from `old`",
        )


@each
@pytest.mark.parametrize("seed", range(20))
def test_every_planted_kernel_is_dealt(exercise: Kata, seed: int) -> None:
    assert exercise.key.tested
    hands = [planted_of_case(exercise.key, case) for case in draw(exercise.id, exercise.key, seed)]
    assert all(AS_GIVEN in hand for hand in hands)
    titles = sorted(one.title for hand in hands for one in hand if one != AS_GIVEN)
    assert titles == sorted(one.title for one in exercise.key.tested.planted)


@each
def test_wrong_kernels_run_and_are_found(
    exercise: Kata, asking: WorkerClient, tmp_path: Path
) -> None:
    """A planted kernel that raises would be found by any test."""
    solved = with_text(exercise, tmp_path, exercise.solution.read_text())
    for case in draw(solved.id, solved.key, 1):
        reference = asking.reference(solved, case)
        found = asking.attempt(asking.learner(solved, case, reference, SECONDS))
        assert isinstance(found, Observation)
        for trial in found.trials:
            wrong = trial.verdict is TrialVerdict.REJECTED and trial.error.startswith(
                "AssertionError"
            )
            demand(
                trial.right is not wrong,
                exercise.key_path,
                f"of a kernel that {trial.kernel}, the solution's test says: "
                f"{trial.error or 'nothing'}",
                "Have the planted kernel return wrong values, and the test find them",
            )
