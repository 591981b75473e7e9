"""The ladder: stars for the rungs that were passed, the first that fails speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.exercise.answer_key import Mistake
from grader.grading.ladder import LADDERS, Judgement, verdict
from grader.verdict import MAX_STARS, State
from pallascope.model import (
    Accident,
    ArrayType,
    Check,
    Observation,
    Problem,
    Stage,
)
from pallascope.tpu import OnChip
from tests.pallascope.support.calls import call, doubling, operand, output, trace
from tests.pallascope.support.sample_predictions import matmul, prediction, rows, uncompiled
from tests.support.factories import OwnAndPar, X, at_par, attempt, evidence, with_key

TODO = Problem(Stage.TRACE, "NotImplementedError", "double it", todo=True)
RAISED = Problem(Stage.TRACE, "NotImplementedError", "double it")
CRASHED = Problem(Stage.RUN, "IndexError", "Out-of-bounds read of (0 0 vmem 102)")
ILLEGAL = trace(doubling((2, 128)))


def test_everything_passed() -> None:
    assert verdict(evidence(attempt())) == Judgement(State.PASSED, MAX_STARS)


@pytest.mark.parametrize("stage", Stage)
def test_a_stub_is_todo(stage: Stage) -> None:
    tried = Observation(problem=replace(TODO, stage=stage))
    assert verdict(evidence(tried)) == Judgement(State.TODO, 0)


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
    judged = verdict(evidence(tried))
    assert (judged.state, judged.stars) == (State.FAILED, stars)
    assert judged.finding is not None
    assert judged.finding.check is check


def test_the_point_of_an_exercise_decides_whether_it_has_stars() -> None:
    """Without the compiler: right values are a star, unless the kata is about something else."""
    unasked = OwnAndPar(uncompiled(), uncompiled())
    tried = evidence(attempt(), on_chips=unasked)
    assert verdict(tried).stars == 1
    slow = Mistake("is slow", "old", "new", Check.COMPILES, "refused")
    about = verdict(with_key(tried, mistakes=(slow,)))
    assert (about.state, about.stars) == (State.PASSED, 0)
    assert about.not_judged
    assert about.not_judged.check is Check.COMPILES
    wrong = with_key(evidence(attempt(3 * X), on_chips=unasked), mistakes=(slow,))
    assert verdict(wrong).state is State.FAILED


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
        finding = verdict(evidence(tried)).finding
        assert finding is not None
        assert finding.check is check


def test_a_launch_without_a_kernel_is_asked_for_its_values_alone() -> None:
    plain = trace(outside=("cumsum",))
    right = verdict(evidence(attempt(traced=plain), kernel=False))
    assert right == Judgement(State.PASSED, MAX_STARS)
    judged = verdict(evidence(attempt(3 * X, plain), kernel=False))
    assert (judged.state, judged.stars) == (State.FAILED, 0)
    assert judged.finding
    assert judged.finding.check is Check.VALUES


UNLOWERED = OnChip(Problem(Stage.LOWER, "UnsupportedJax", "jax has moved something"))


@pytest.mark.parametrize(
    ("own", "par", "check", "stars"),
    [
        (UNLOWERED, UNLOWERED, Check.LOWERS, 1),
        (OnChip(), OnChip(), Check.LOWERS, 1),
        (OnChip(), None, Check.LOWERS, 1),
        (uncompiled(), uncompiled(), Check.COMPILES, 1),
        (None, OnChip(), Check.COST, 2),
    ],
)
def test_no_star_from_a_rung_on_that_could_not_be_asked(
    own: OnChip | None, par: OnChip | None, check: Check, stars: int
) -> None:
    fine = at_par()
    judged = verdict(evidence(attempt(), on_chips=OwnAndPar(own or fine.own, par or fine.par)))
    assert (judged.state, judged.stars, judged.finding) == (State.PASSED, stars, None)
    assert judged.not_judged is not None
    assert judged.not_judged.check is check
    assert judged.not_judged.why


def test_rungs_behind_one_that_was_not_asked_still_find_what_is_wrong() -> None:
    twice = prediction(unknown="no libtpu", traffic=rows(matmul(), counts=(16, 8, 4)))
    chips = OwnAndPar(OnChip(None, (twice,)), uncompiled())
    for required, state in ((False, State.PASSED), (True, State.FAILED)):
        judged = verdict(evidence(attempt(), on_chips=chips, par_required=required))
        assert (judged.state, judged.stars) == (state, 1)
        assert judged.finding is not None
        assert judged.finding.check is Check.COST
        assert judged.finding.message.startswith("Right, as far as it could be judged, but it")
        assert judged.not_judged is not None
        assert judged.not_judged.check is Check.COMPILES


@pytest.mark.parametrize("target", LADDERS)
def test_stars_never_fall_along_the_ladder(target: str) -> None:
    stars = [rung.stars for rung in LADDERS[target].rungs]
    assert stars == sorted(stars)
    assert stars[0] == 0
    assert stars[-1] == MAX_STARS


TWICE = prediction(compiled=True, traffic=rows(matmul(), counts=(16, 8, 4)))
ONCE = prediction(compiled=True, traffic=rows(matmul(), counts=(4, 4, 4)))
SLOW = OwnAndPar(OnChip(None, (TWICE,)), OnChip(None, (ONCE,)))


def test_par_is_judged_only_where_the_launch_costs() -> None:
    judged = verdict(evidence(attempt(), on_chips=SLOW))
    assert (judged.state, judged.stars) == (State.PASSED, 2)
    judged = verdict(evidence(attempt(), on_chips=SLOW, costs=False))
    assert judged == Judgement(State.PASSED, MAX_STARS)


def test_at_production_size_no_values_are_judged() -> None:
    nothing = Observation(trace=trace(doubling()))
    judged = verdict(evidence(nothing, production=True))
    assert judged == Judgement(State.PASSED, MAX_STARS)
    judged = verdict(evidence(nothing, production=True, on_chips=SLOW))
    assert (judged.state, judged.stars) == (State.PASSED, 2)
    assert judged.finding
    assert judged.finding.message.startswith("At production size it would be slower on a TPU")
    judged = verdict(evidence(Observation(trace=ILLEGAL), production=True))
    assert (judged.state, judged.stars) == (State.FAILED, 0)
    assert judged.finding
    assert judged.finding.message.startswith("At production size a TPU would refuse these blocks.")
