"""Case and kata in, grade out: runs the ladder; the first rung that fails stops it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grader.catalog import Kata
from grader.checks import blocks, contract, pallas_used, runs, values
from grader.checks.evidence import Evidence
from grader.model import (
    Accident,
    Attempt,
    Case,
    Clues,
    Finding,
    Grade,
    Problem,
    Reference,
    State,
)
from grader.sandbox.bench import Bench, Worker
from grader.sandbox.messages import Answer, Ask, Task

#: Seconds for a solution's spec.
TRUSTED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Rung:
    """One check, and how many stars a kernel has that passed it and all before."""

    check: Callable[[Evidence], Finding | None]
    stars: int


LADDER = (
    Rung(runs.check, 0),
    Rung(contract.check, 0),
    Rung(pallas_used.check, 0),
    Rung(values.check, 1),
    Rung(blocks.check, 2),
)
MOST_STARS = LADDER[-1].stars


class BrokenKata(Exception):
    """The solution or its key cannot be used: nobody's kernel can be graded against it."""


class Grader:
    """Grades cases one after another, on one bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked: list[Case] = []
        self._stuck: dict[Path, Accident] = {}

    def prepare(self, kata: Kata, case: Case) -> None:
        """Have the trusted worker begin on a case that will be graded next."""
        if case not in self._asked:
            ask = Ask(Task.REFERENCE, str(kata.solution), kata.name, case, self._bench.device.mode)
            self._bench.trusted().ask(ask)
            self._asked.append(case)

    def grade(self, kata: Kata, case: Case, seconds: float | None) -> Grade:
        """Grade the learner's file on one case, within `seconds` (None: without end).

        Raises BrokenKata where the solution's side fails, SandboxError where no process starts.
        """
        started = time.perf_counter()
        worker = self._bench.attempting(kata.path)  # boots while the reference is computed
        self.prepare(kata, case)
        reference = self._reference(case)
        # One hidden case that hangs is enough: the others would only take as long again.
        attempt = self._stuck.get(kata.path) or self._attempt(
            worker, kata, case, reference, seconds
        )
        evidence = self._evidence(worker, kata, case, reference, attempt, seconds)
        state, stars, finding = verdict(evidence)
        return Grade(
            kata=kata.id,
            case=case.index,
            state=state,
            stars=stars,
            finding=finding,
            drawn=str(case),
            seconds=round(time.perf_counter() - started, 3),
            printed=attempt.printed,
        )

    def _reference(self, case: Case) -> Reference:
        while True:
            answer = self._bench.trusted().answer(TRUSTED_SECONDS)
            if isinstance(answer, Accident):
                self._asked.clear()
                raise BrokenKata(f"the solution's spec: {answer.phrase}\n{answer.message}")
            if self._asked.pop(0) != case:
                continue  # prepared, but never graded: -x, or a test that was deselected late
            if answer.reference is None:
                raise BrokenKata(f"the solution's spec: {_in_short(answer.problem)}")
            return answer.reference

    def _attempt(
        self, worker: Worker, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Attempt | Accident:
        worker.ask(self._ask(Task.ATTEMPT, kata, case, reference))
        answer = worker.answer(seconds)
        if isinstance(answer, Answer):
            assert answer.attempt is not None
            return answer.attempt
        if answer.stuck:
            self._stuck[kata.path] = answer
        return answer

    def _ask(self, task: Task, kata: Kata, case: Case, reference: Reference) -> Ask:
        mode, keywords = self._bench.device.mode, reference.keywords
        return Ask(task, str(kata.path), kata.name, case, mode, reference.inputs, keywords)

    def _evidence(
        self,
        worker: Worker,
        kata: Kata,
        case: Case,
        reference: Reference,
        attempt: Attempt | Accident,
        seconds: float | None,
    ) -> Evidence:
        @functools.cache
        def clues() -> Clues:
            worker.ask(self._ask(Task.EXPLAIN, kata, case, reference))
            answer = worker.answer(seconds)
            return (answer.clues if isinstance(answer, Answer) else None) or Clues()

        return Evidence(
            mode=self._bench.device.mode,
            file=kata.where()[0],
            attempt=attempt,
            reference=reference,
            outside=kata.key.outside,
            roundings=kata.key.roundings,
            clues=clues,
        )


def verdict(evidence: Evidence) -> tuple[State, int, Finding | None]:
    """State, stars earned, and what the first failing rung says."""
    if evidence.problem and evidence.problem.todo:
        return State.TODO, 0, None
    stars = 0
    for rung in LADDER:
        if finding := rung.check(evidence):
            return State.FAILED, stars, finding
        stars = rung.stars
    return State.PASSED, stars, None


def _in_short(problem: Problem | None) -> str:
    if problem is None:
        return "no answer"
    where = f" (line {problem.place.line}: {problem.place.text})" if problem.place else ""
    return f"{problem.kind}: {problem.message}{where}"
