"""Case and kata in, grade out: runs the ladder; the first rung that fails stops it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grader.catalog import Kata
from grader.checks import blocks, compiles, contract, cost, lowers, pallas_used, runs, values
from grader.checks.evidence import Evidence, WayToChip
from grader.model import (
    MOST_STARS,
    Accident,
    Attempt,
    Case,
    Check,
    Clues,
    Finding,
    Grade,
    Problem,
    Reference,
    State,
)
from grader.sandbox.bench import Bench
from grader.sandbox.messages import Answer, Ask, Task
from grader.sandbox.trusted import Trusted
from grader.tpu import OnChip
from grader.tpu.chips import DEFAULT
from grader.tpu.compiler import Estimate
from grader.tpu.motion import Followed


@dataclass(frozen=True, slots=True)
class Rung:
    """One check, and how many stars a kernel has that passed it and all before.

    Failing a rung that is `needed` fails the kata; of the others only the star is lost. A rung
    `of_kernels` is not asked where the kata has none.
    """

    check: Callable[[Evidence], Finding | None]
    stars: int
    needed: bool = True
    of_kernels: bool = True


LADDER = (
    Rung(runs.check, 0, of_kernels=False),
    Rung(contract.check, 0, of_kernels=False),
    Rung(pallas_used.check, 0),
    Rung(values.check, 1, of_kernels=False),
    Rung(blocks.check, 1),
    Rung(lowers.check, 1),
    Rung(compiles.check, 2),
    Rung(cost.check, MOST_STARS, needed=False),
)


class BrokenKata(Exception):
    """The solution or its key cannot be used: nobody's kernel can be graded against it."""


class Grader:
    """Grades cases one after another, on one bench, for chips of these names.

    `trusted` asks for a solution's side; it may outlive this grader, with what it keeps.
    """

    def __init__(
        self, bench: Bench, chips: tuple[str, ...] = (DEFAULT,), trusted: Trusted | None = None
    ) -> None:
        self._bench = bench
        self._chips = chips
        self._trusted = trusted or Trusted(bench)
        self._stuck: dict[Path, Accident] = {}

    def prepare(self, kata: Kata, case: Case) -> None:
        """Have the trusted worker begin on a case that will be graded next."""
        self._trusted.ask(self._reference_ask(kata, case))

    def rehearse(self, kata: Kata, case: Case) -> None:
        """Have the solution's side of a case answered. Raises BrokenKata."""
        reference = self.reference(kata, case)
        if kata.key.kernel:
            self.par(kata, case, reference)

    def grade(self, kata: Kata, case: Case, seconds: float | None) -> Grade:
        """Grade the learner's file on one case, within `seconds` (None: without end).

        Raises BrokenKata where the solution's side fails, SandboxError where no process starts.
        """
        started = time.perf_counter()
        evidence = self.evidence(kata, case, seconds)
        state, stars, finding = verdict(evidence)
        compiled = kata.key.kernel and (
            state is State.PASSED or bool(finding and finding.check is Check.COST)
        )
        return Grade(
            kata=kata.id,
            case=case.index,
            state=state,
            stars=stars,
            finding=finding,
            drawn=str(case),
            seconds=round(time.perf_counter() - started, 3),
            printed=evidence.attempt.printed,
            cost=cost.compared(evidence) if compiled else None,
            unchecked=evidence.own.unchecked if compiled else "",
        )

    def evidence(self, kata: Kata, case: Case, seconds: float | None, events: int = 0) -> Evidence:
        """Run the learner's launch on one case: what a grade is judged by.

        `events` is how many single transfers and stalls its predicted schedule keeps. Raises
        BrokenKata, SandboxError.
        """
        self._bench.attempting(kata.path)  # boots while the reference is computed
        reference = self.reference(kata, case)
        ask = self._ask(Task.ATTEMPT, kata.path, kata, case, reference)
        # One hidden case that hangs is enough: the others would only take as long again.
        attempt = self._stuck.get(kata.path) or self._attempt(ask, seconds)
        return self._evidence(kata, case, reference, attempt, seconds, events)

    def reference(self, kata: Kata, case: Case) -> Reference:
        """Inputs and what must come back, from the solution. Raises BrokenKata."""
        return self._referred(self._reference_ask(kata, case))

    def inputs(self, kata: Kata, case: Case) -> Reference:
        """The same without what must come back, for cases of any size. Raises BrokenKata."""
        return self._referred(self._reference_ask(kata, case, Task.INPUTS))

    def way(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        seconds: float | None,
        events: int = 0,
    ) -> WayToChip:
        """The learner's launch and par's on their way to the chips, side by side."""
        par = self._ask(Task.PREDICT, _solution(kata), kata, case, reference, events)
        self._trusted.ask(par)
        own = self.own(kata, case, reference, seconds, events)
        return WayToChip(own, _on_chip(self._trusted.answer(par)))

    def own(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        seconds: float | None,
        events: int = 0,
    ) -> OnChip | Accident:
        """The learner's launch on its way to the chips."""
        worker = self._bench.attempting(kata.path)
        worker.ask(self._ask(Task.PREDICT, kata.path, kata, case, reference, events))
        return _on_chip(worker.answer(seconds))

    def par(
        self, kata: Kata, case: Case, reference: Reference, events: int = 0
    ) -> OnChip | Accident:
        """Par on its way to the chips."""
        ask = self._ask(Task.PREDICT, _solution(kata), kata, case, reference, events)
        return _on_chip(self._trusted.answer(ask))

    def follow(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Followed | Accident:
        """The blocks of the learner's launch, step by step."""
        worker = self._bench.attempting(kata.path)
        worker.ask(self._ask(Task.FOLLOW, kata.path, kata, case, reference))
        return _followed(worker.answer(seconds))

    def follow_par(self, kata: Kata, case: Case, reference: Reference) -> Followed | Accident:
        """The blocks of the solution's launch, step by step."""
        ask = self._ask(Task.FOLLOW, _solution(kata), kata, case, reference)
        return _followed(self._trusted.answer(ask))

    def xla(self, kata: Kata, case: Case, reference: Reference) -> Estimate | None:
        """XLA's estimate for the spec on the first chip; None where it can't be asked."""
        ask = self._ask(Task.XLA, _solution(kata), kata, case, reference)
        answer = self._trusted.answer(ask)
        return None if isinstance(answer, Accident) else answer.xla

    def _reference_ask(self, kata: Kata, case: Case, task: Task = Task.REFERENCE) -> Ask:
        return Ask(task, str(_solution(kata)), kata.name, case, self._bench.device.mode)

    def _referred(self, ask: Ask) -> Reference:
        answer = self._trusted.answer(ask)
        if isinstance(answer, Accident):
            raise BrokenKata(f"the solution's spec: {answer.phrase}\n{answer.message}")
        if answer.reference is None:
            raise BrokenKata(f"the solution's spec: {_in_short(answer.problem)}")
        return answer.reference

    def _attempt(self, ask: Ask, seconds: float | None) -> Attempt | Accident:
        answer = self._attempted(ask, seconds)
        if isinstance(answer, Accident) and answer.crashed:
            # A kernel that crashes does so again; a machine that is short of something may not.
            answer = self._attempted(ask, seconds)
        if isinstance(answer, Answer):
            assert answer.attempt is not None
            return answer.attempt
        if answer.stuck:
            self._stuck[Path(ask.file)] = answer
        return answer

    def _attempted(self, ask: Ask, seconds: float | None) -> Answer | Accident:
        worker = self._bench.attempting(Path(ask.file))
        worker.ask(ask)
        return worker.answer(seconds)

    def _ask(
        self,
        task: Task,
        file: Path,
        kata: Kata,
        case: Case,
        reference: Reference,
        events: int = 0,
    ) -> Ask:
        return Ask(
            task,
            str(file),
            kata.name,
            case,
            self._bench.device.mode,
            reference.inputs,
            reference.keywords,
            self._chips,
            events,
        )

    def _evidence(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        attempt: Attempt | Accident,
        seconds: float | None,
        events: int,
    ) -> Evidence:
        @functools.cache
        def clues() -> Clues:
            worker = self._bench.attempting(kata.path)
            worker.ask(self._ask(Task.EXPLAIN, kata.path, kata, case, reference))
            answer = worker.answer(seconds)
            return (answer.clues if isinstance(answer, Answer) else None) or Clues()

        @functools.cache
        def way() -> WayToChip:
            return self.way(kata, case, reference, seconds, events)

        return Evidence(
            mode=self._bench.device.mode,
            file=kata.where()[0],
            attempt=attempt,
            reference=reference,
            kernel=kata.key.kernel,
            outside=kata.key.outside,
            roundings=kata.key.roundings,
            clues=clues,
            chips=self._chips,
            par_required=kata.key.par_required,
            slack=kata.key.slack,
            way=way,
        )


def verdict(evidence: Evidence) -> tuple[State, int, Finding | None]:
    """State, stars earned, and what the first failing rung says."""
    if evidence.problem and evidence.problem.todo:
        return State.TODO, 0, None
    stars = 0
    for rung in LADDER:
        if rung.of_kernels and not evidence.kernel:
            continue
        if finding := rung.check(evidence):
            failed = rung.needed or evidence.par_required
            return (State.FAILED if failed else State.PASSED), stars, finding
        stars = rung.stars
    return State.PASSED, MOST_STARS, None


def _solution(kata: Kata) -> Path:
    """Its file by one name, through whatever links: what was answered of it is then known again."""
    return kata.solution.resolve()


def _on_chip(answer: Answer | Accident) -> OnChip | Accident:
    if isinstance(answer, Accident):
        return answer
    assert answer.on_chip is not None
    return answer.on_chip


def _followed(answer: Answer | Accident) -> Followed | Accident:
    if isinstance(answer, Accident):
        return answer
    assert answer.followed is not None
    return answer.followed


def _in_short(problem: Problem | None) -> str:
    if problem is None:
        return "no answer"
    where = f" (line {problem.place.line}: {problem.place.text})" if problem.place else ""
    return f"{problem.kind}: {problem.message}{where}"
