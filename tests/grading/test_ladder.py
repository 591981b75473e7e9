"""The ladder: stars for the rungs that were passed, the first that fails speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.grading.ladder import LADDER, verdict
from grader.model import MOST_STARS, Accident, ArrayType, Check, Observation, Problem, Stage, State
from tests.support.making import X, attempt, call, doubling, evidence, operand, output, trace

TODO = Problem(Stage.TRACE, "NotImplementedError", "double it", todo=True)
RAISED = Problem(Stage.TRACE, "NotImplementedError", "double it")
CRASHED = Problem(Stage.RUN, "IndexError", "Out-of-bounds read of (0 0 vmem 102)")
ILLEGAL = trace(doubling((2, 128)))


def test_everything_passed() -> None:
    assert verdict(evidence(attempt())) == (State.PASSED, MOST_STARS, None)


@pytest.mark.parametrize("stage", Stage)
def test_a_stub_is_todo(stage: Stage) -> None:
    tried = Observation(problem=replace(TODO, stage=stage))
    assert verdict(evidence(tried)) == (State.TODO, 0, None)


@pytest.mark.parametrize(
    ("tried", "check", "stars"),
    [
        (Observation(problem=RAISED), Check.RUNS, 0),
        (Accident("crashed", "It crashed."), Check.RUNS, 0),
        (
            attempt(traced=trace(doubling(), results=(ArrayType("float32", (3,)),))),
            Check.CONTRACT,
            0,
        ),
        (Observation(broken_annotation="no"), Check.CONTRACT, 0),
        (attempt(traced=trace(outside=("mul",))), Check.PALLAS_USED, 0),
        (attempt(3 * X), Check.VALUES, 0),
        (attempt(problem=CRASHED), Check.VALUES, 0),
        (attempt(complaints=("RACE DETECTED\n  write",)), Check.VALUES, 0),
        (attempt(traced=ILLEGAL), Check.BLOCKS, 1),
    ],
)
def test_the_failing_rung_and_the_stars_before_it(
    tried: Observation | Accident, check: Check, stars: int
) -> None:
    state, earned, finding = verdict(evidence(tried))
    assert (state, earned) == (State.FAILED, stars)
    assert finding is not None
    assert finding.check is check


def test_the_first_failing_rung_speaks() -> None:
    """Each attempt fails the rungs of all that follow it, too."""
    bad = call(operand("x_ref", (32, 128), (2, 128)), output((2, 128)))
    shape = (ArrayType("float32", (3,)),)
    tries = [
        (attempt(3 * X, trace(bad, outside=("sin",), results=shape), problem=RAISED), Check.RUNS),
        (attempt(3 * X, trace(bad, outside=("sin",), results=shape)), Check.CONTRACT),
        (attempt(3 * X, trace(bad, outside=("sin",))), Check.PALLAS_USED),
        (attempt(3 * X, trace(bad)), Check.VALUES),
        (attempt(2 * X, trace(bad)), Check.BLOCKS),
    ]
    for tried, check in tries:
        finding = verdict(evidence(tried))[2]
        assert finding is not None
        assert finding.check is check


def test_a_launch_without_a_kernel_is_asked_for_its_values_alone() -> None:
    plain = trace(outside=("cumsum",))
    assert verdict(evidence(attempt(traced=plain), kernel=False)) == (
        State.PASSED,
        MOST_STARS,
        None,
    )
    state, stars, finding = verdict(evidence(attempt(3 * X, plain), kernel=False))
    assert (state, stars) == (State.FAILED, 0)
    assert finding
    assert finding.check is Check.VALUES


def test_stars_never_fall_along_the_ladder() -> None:
    stars = [rung.stars for rung in LADDER]
    assert stars == sorted(stars)
    assert stars[0] == 0
    assert stars[-1] == MOST_STARS
