"""A test is tried on each kernel through questions alone, and what it sends is not believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grader.exercise.key_tables import Planted
from grader.exercise.mutants import AS_GIVEN
from grader.sandbox import mutant_trials
from grader.sandbox.messages import (
    FinishedTest,
    LaunchCalled,
    Question,
    Returned,
    Traced,
    TraceLaunch,
    TryTest,
)
from grader.sandbox.mutant_trials import BrokenPlanted, MutantTrials, TrialSubject
from grader.verdict import Case
from pallascope.model import (
    Accident,
    Array,
    Mode,
    Observation,
    Problem,
    SourceFile,
    Stage,
    TrialVerdict,
)
from pallascope.runs.questions import RunResult, RunTrace

SOLUTION = SourceFile("solutions/b.py", b"right")
WRONG = Planted("is wrong", "right", "wrong")
BROKEN = Planted("is broken", "right", "broken")
ONE = Array("uint8", (1,), b"1")
SUBJECT = TrialSubject(
    SourceFile("katas/b.py", b""),
    "b",
    SOLUTION,
    "dense",
    Case("1_a/kata_01_b", 0, 1, 7, {}, "float32"),
    "v5e",
    Mode.STRICT,
)


class Kernels:
    """Stands for the workers that know solutions: a launch returns its own text."""

    def __init__(self) -> None:
        self.ran = 0

    def answer(self, question: Question, seconds: float | None = 0, keep: bool = True) -> Any:
        assert not keep
        if isinstance(question, TraceLaunch):
            assert question.by_name
            broken = question.source.content == b"broken"
            problem = Problem(Stage.TRACE, "SyntaxError", "bad") if broken else None
            return Traced(problem, question.source.content)
        assert isinstance(question, RunTrace)
        self.ran += 1
        return RunResult(outputs=(Array("uint8", (len(question.trace),), question.trace),))


class Test:
    """Stands for the worker with the test: `says` makes of all that was returned what it says."""

    __test__ = False

    def __init__(self, says: Callable[[list[Returned]], Any]) -> None:
        self._says = says
        self._returned: list[Returned] = []
        self.began = self.dismissed = 0

    def dismiss(self) -> None:
        self.dismissed += 1

    def answer(self, question: Question, seconds: float | None, keep: bool, twice: bool) -> Any:
        assert not keep
        assert not twice
        if isinstance(question, TryTest):
            self.began += 1
            self._returned = []
        else:
            assert isinstance(question, Returned)
            self._returned.append(question)
        return self._says(self._returned)

    def note_killed(self, found: object) -> None:
        self.noted = found


def found(says: Callable[[list[Returned]], Any], *planted: Planted) -> Observation | Accident:
    kernels: Any = Kernels()
    test: Any = Test(says)
    trials = MutantTrials(kernels, test, kernels, test.dismiss)
    return trials.of(SUBJECT, (AS_GIVEN, *planted), 1.0)


def comparing(returned: list[Returned]) -> LaunchCalled | FinishedTest:
    """A test that calls the launch once, and wants the right kernel's text."""
    if not returned:
        return LaunchCalled((ONE,), {"bm": 8})
    right = returned[0].outputs and returned[0].outputs[0].data == b"right"
    return FinishedTest(None if right else Problem(Stage.RUN, "AssertionError", "differs"))


def test_each_kernel_is_tried() -> None:
    observed = found(comparing, WRONG)
    assert isinstance(observed, Observation)
    right, wrong = observed.trials
    assert (right.right, right.verdict, right.calls) == (True, TrialVerdict.PASSED, 1)
    assert (wrong.right, wrong.verdict, wrong.calls) == (False, TrialVerdict.REJECTED, 1)
    assert wrong.error == "AssertionError: differs"


def test_each_kernel_is_tried_in_a_new_process() -> None:
    """A test that kept the first result of each call could compare the kernels with each other."""
    kernels: Any = Kernels()
    test: Any = Test(comparing)
    trials = MutantTrials(kernels, test, kernels, test.dismiss)
    trials.of(SUBJECT, (AS_GIVEN, WRONG), 1.0)
    assert test.dismissed == test.began == 2


def test_a_test_whose_process_dies_once_is_tried_again_from_its_start() -> None:
    """A new process has called no kernel, so it can't take what one has returned."""
    deaths = iter([Accident("killed (SIGKILL)", "", crashed=True)])

    def dying_once(returned: list[Returned]) -> Any:
        return (next(deaths, None) if returned else None) or comparing(returned)

    observed = found(dying_once, WRONG)
    assert isinstance(observed, Observation)
    assert [trial.verdict for trial in observed.trials] == [
        TrialVerdict.PASSED,
        TrialVerdict.REJECTED,
    ]


def test_calls_without_end_are_not_tried_again() -> None:
    """The process is in the middle of a call: it would take a new question for an answer."""
    kernels: Any = Kernels()
    test: Any = Test(lambda _: LaunchCalled((ONE,), {}))
    trials = MutantTrials(kernels, test, kernels, test.dismiss)
    assert isinstance(trials.of(SUBJECT, (AS_GIVEN,), 1.0), Accident)
    assert test.began == 1


def test_the_same_call_is_run_once() -> None:
    kernels: Any = Kernels()
    test: Any = Test(comparing)
    tried = MutantTrials(kernels, test, kernels, test.dismiss)
    tried.of(SUBJECT, (AS_GIVEN,), 1.0)
    tried.of(SUBJECT, (AS_GIVEN, WRONG), 1.0)
    assert kernels.ran == 2


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (Array("uint8", (2,), b"1"), "without its elements"),
        (Array("uint8", (-1, -1), b"1"), "without its elements"),
        (Array("object", (1,), b"12345678"), "takes no object"),
    ],
)
def test_arrays_that_are_none_never_reach_a_kernel(array: Array, says: str) -> None:
    errors: list[str] = []

    def sending(returned: list[Returned]) -> LaunchCalled | FinishedTest:
        errors.extend(one.error for one in returned)
        return FinishedTest() if returned else LaunchCalled((array,), {})

    assert isinstance(found(sending), Observation)
    assert says in errors[0]


def test_calls_without_end_are_ended() -> None:
    ended = found(lambda _: LaunchCalled((ONE,), {}))
    assert isinstance(ended, Accident)
    assert ended.stuck
    assert str(2 * mutant_trials.MOST_CALLS) in ended.phrase


def test_a_file_that_is_still_to_do_is_tried_once() -> None:
    todo = Problem(Stage.RUN, "NotImplementedError", "", todo=True)
    observed = found(lambda _: FinishedTest(todo), WRONG)
    assert isinstance(observed, Observation)
    assert (observed.problem, observed.trials) == (todo, ())


def test_a_planted_kernel_that_is_broken_is_the_authors_fault() -> None:
    with pytest.raises(BrokenPlanted, match="a planted kernel is broken: SyntaxError: bad"):
        found(comparing, BROKEN)
