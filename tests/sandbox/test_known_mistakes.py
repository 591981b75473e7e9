"""Known mistakes are run the likeliest first, once each, and not for ever."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grader.exercise.answer_key import Mistake
from grader.sandbox import known_mistakes
from grader.sandbox.known_mistakes import KnownMistakeRuns, WrongResult
from grader.sandbox.messages import Question, Traced, TraceLaunch
from grader.verdict import Case
from pallascope.model import (
    Accident,
    Array,
    Check,
    Mode,
    Problem,
    SourceFile,
    Stage,
)
from pallascope.runs.questions import RunResult, RunTrace, TargetDevice

SOLUTION = "# BEGIN SOLUTION\no_ref[...] = x_ref[...] + 10\n# END SOLUTION\n"
MISTAKES = (
    Mistake("subtracts", "+ 10", "- 10", Check.VALUES, "says"),
    Mistake("adds one more", "+ 10", "+ 11", Check.VALUES, "says"),
    Mistake("raises", "+ 10", "/ None", Check.VALUES, "says"),
    Mistake("is slow", "+ 10", "+ 5 + 5", Check.COST, "says"),
)
CASE = Case("1_a/kata_01_b", 0, 1, 7, {"N": 8}, "float32")


class Worker:
    """Stands for both workers: a launch's trace, and its result, are its text."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def wrong(self) -> list[str]:
        """The sums of the launches that were run, less the solution's."""
        sums = [re.findall(r"[-+] \d+", text)[0] for text in self.ran]
        return [added for added in sums if added != "+ 10"]

    def answer(self, question: Question, keep: bool = True) -> Any:
        if isinstance(question, TraceLaunch):
            assert not keep
            broken = b"/ None" in question.source.content
            problem = Problem(Stage.TRACE, "TypeError", "") if broken else None
            return Traced(problem, question.source.content)
        assert isinstance(question, RunTrace)
        self.ran.append(question.trace.decode())
        return RunResult(outputs=(Array("uint8", (1,), question.trace),))


def wrong_result(written: str, case: Case = CASE, comment: str = "  # mine") -> WrongResult:
    solution = SourceFile("solutions/b.py", SOLUTION.encode())
    trace = TraceLaunch(solution, "b", (), {}, TargetDevice("v5e"))
    source = SourceFile("katas/b.py", SOLUTION.replace("+ 10", written + comment).encode())
    return WrongResult(source, solution, MISTAKES, case, (), trace, Mode.STRICT)


def holds(text: str) -> known_mistakes.Agrees:
    return lambda outputs: text.encode() in outputs[0].data


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def mistake_runs(worker: Worker) -> KnownMistakeRuns:
    line: Any = worker
    return KnownMistakeRuns(line, lambda _: line)


def test_the_likeliest_is_tried_first_and_the_first_that_agrees_is_told(
    mistake_runs: KnownMistakeRuns, worker: Worker
) -> None:
    assert mistake_runs.first(wrong_result("+ 11"), holds("+ 11")) == "adds one more"
    assert worker.wrong() == ["+ 11"]
    assert mistake_runs.first(wrong_result("+ 11"), holds("- 10")) == "subtracts"
    assert mistake_runs.first(wrong_result("+ 12"), holds("+ 12")) == ""
    assert worker.wrong() == ["+ 11", "- 10"], "each once; what raises or has right values never"


def test_what_agreed_on_one_case_is_tried_first_on_the_next(
    mistake_runs: KnownMistakeRuns, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is tried even after the most runs."""
    assert mistake_runs.first(wrong_result("+ 11"), holds("- 10")) == "subtracts"
    monkeypatch.setattr(known_mistakes, "MOST_RUNS", 0)
    other = Case("1_a/kata_01_b", 1, 1, 8, {"N": 8}, "float32")
    assert mistake_runs.first(wrong_result("+ 11", other), holds("- 10")) == "subtracts"
    assert worker.wrong() == ["+ 11", "- 10", "- 10"]
    assert mistake_runs.first(wrong_result("+ 11", other), holds("+ 11")) == ""


def test_another_attempt_has_its_own_runs(
    mistake_runs: KnownMistakeRuns, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results that an earlier attempt has left don't count: each attempt gets the same answer."""
    monkeypatch.setattr(known_mistakes, "MOST_RUNS", 1)
    for _ in range(2):
        assert mistake_runs.first(wrong_result("+ 11"), holds("- 10")) == ""
        assert mistake_runs.first(wrong_result("- 10"), holds("- 10")) == "subtracts"
    assert worker.wrong() == ["+ 11", "- 10"]


def test_each_session_has_its_own_runs(
    mistake_runs: KnownMistakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_mistakes, "MOST_RUNS", 1)
    other = Case("1_a/kata_01_b", 0, 2, 7, {"N": 8}, "float32")
    assert mistake_runs.first(wrong_result("+ 11"), holds("nothing")) == ""
    assert mistake_runs.first(wrong_result("+ 11"), holds("+ 11")) == ""
    assert mistake_runs.first(wrong_result("+ 11", other), holds("+ 11")) == "adds one more"


def test_a_known_mistake_to_the_letter_is_not_run_again(
    mistake_runs: KnownMistakeRuns, worker: Worker
) -> None:
    assert mistake_runs.first(wrong_result("+ 11", comment=""), holds("nothing")) == "adds one more"
    assert not worker.wrong()


@pytest.mark.parametrize("comment", ["", "  # mine"])
def test_a_mistake_is_not_named_where_the_solution_has_the_same_results(
    mistake_runs: KnownMistakeRuns, comment: str
) -> None:
    """Of a wrong result that agrees with both, the mistake is not the cause."""
    assert mistake_runs.first(wrong_result("+ 11", comment=comment), holds("o_ref")) == ""
    adds_one = wrong_result("+ 11", comment=comment)
    assert mistake_runs.first(adds_one, holds("+ 11")) == "adds one more"


def test_the_solution_is_run_once_for_each_case(
    mistake_runs: KnownMistakeRuns, worker: Worker
) -> None:
    """Each rejection asks whether its results agree, and a run takes time."""
    for sums in ("+ 11", "- 10"):
        assert mistake_runs.first(wrong_result(sums), holds(sums))
    assert [text for text in worker.ran if "+ 10" in text] == [SOLUTION]
    other = Case("1_a/kata_01_b", 1, 1, 8, {"N": 8}, "float32")
    assert mistake_runs.first(wrong_result("+ 11", other), holds("+ 11"))
    assert [text for text in worker.ran if "+ 10" in text] == [SOLUTION, SOLUTION]


def test_a_run_without_results_is_not_kept(
    mistake_runs: KnownMistakeRuns, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may have died by accident, which decides nothing about the next file."""
    with monkeypatch.context() as patch:
        patch.setattr(worker, "answer", lambda *_, **__: Accident("killed", ""))
        assert mistake_runs.first(wrong_result("+ 11"), holds("+ 11")) == ""
    assert mistake_runs.first(wrong_result("+ 11"), holds("+ 11")) == "adds one more"
