"""What can be asked of a kata's launch and of its solution's, each a question to a worker.

    of the solution   reference, inputs, par, follow_par, xla
    of the launch     attempt, clues, own, follow

Nothing here judges. Wherever an answer is an `Accident`, the process did not live to give one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from grader.exercise.catalog import Kata
from grader.model import Accident, Case, Clues, Observation, Problem, Reference
from grader.sandbox.bench import Bench
from grader.sandbox.messages import Answer, Ask, Task
from grader.sandbox.trusted import Trusted
from grader.tpu import OnChip
from grader.tpu.chips import DEFAULT
from grader.tpu.compiler import Estimate
from grader.tpu.motion import Followed

T = TypeVar("T")


class BrokenKata(Exception):
    """The solution or its key cannot be used: nobody's kernel can be graded against it."""


class Asking:
    """Asks the workers of one bench, about launches for chips of these names.

    `trusted` asks for a solution's side; it may outlive this, with what it keeps. `eager`: there is
    a core to spare, so what will be needed if a kernel is right is asked before it is known to be.
    Every question may raise SandboxError, where no process starts.
    """

    def __init__(
        self,
        bench: Bench,
        chips: tuple[str, ...] = (DEFAULT,),
        trusted: Trusted | None = None,
        eager: bool = False,
    ) -> None:
        self.mode = bench.device.mode
        self.chips = chips
        self.eager = eager
        self._bench = bench
        self._trusted = trusted or Trusted(bench)
        self._stuck: dict[Path, Accident] = {}

    # ---- the solution's side ----

    def prepare(self, kata: Kata, case: Case) -> None:
        """Have the trusted worker begin on a case that will be graded next."""
        self._trusted.ask(self._about_solution(Task.REFERENCE, kata, case))

    def reference(self, kata: Kata, case: Case) -> Reference:
        """Inputs and what must come back, from the solution. Raises BrokenKata."""
        return self._referred(self._about_solution(Task.REFERENCE, kata, case))

    def inputs(self, kata: Kata, case: Case) -> Reference:
        """The same without what must come back, for cases of any size. Raises BrokenKata."""
        return self._referred(self._about_solution(Task.INPUTS, kata, case))

    def begin_par(self, kata: Kata, case: Case, reference: Reference, events: int = 0) -> None:
        """Have the trusted worker begin on what `par` will ask."""
        self._trusted.ask(self._about_solution(Task.PREDICT, kata, case, reference, events))

    def par(
        self, kata: Kata, case: Case, reference: Reference, events: int = 0
    ) -> OnChip | Accident:
        """The solution's launch on its way to the chips."""
        ask = self._about_solution(Task.PREDICT, kata, case, reference, events)
        return _expected(OnChip, self._trusted.answer(ask))

    def follow_par(self, kata: Kata, case: Case, reference: Reference) -> Followed | Accident:
        """The blocks of the solution's launch, step by step."""
        ask = self._about_solution(Task.FOLLOW, kata, case, reference)
        return _expected(Followed, self._trusted.answer(ask))

    def xla(self, kata: Kata, case: Case, reference: Reference) -> Estimate | None:
        """XLA's estimate for the spec on the first chip; None where it can't be asked."""
        answer = self._trusted.answer(self._about_solution(Task.XLA, kata, case, reference))
        return answer if isinstance(answer, Estimate) else None

    # ---- the launch ----

    def attempt(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Observation | Accident:
        """Trace and run the learner's launch.

        One hidden case that hangs is enough: of this kata's others nothing is asked. A kernel that
        crashes does so again, a machine that is short of something may not: so it is tried twice.
        """
        if stuck := self._stuck.get(kata.path):
            return stuck
        ask = self._about_launch(Task.ATTEMPT, kata, case, reference)
        answer = self._answer(ask, seconds)
        if isinstance(answer, Accident) and answer.crashed:
            answer = self._answer(ask, seconds)
        if isinstance(answer, Accident) and answer.stuck:
            self._stuck[kata.path] = answer
        return _expected(Observation, answer)

    def boot(self, kata: Kata) -> None:
        """Have the process start that `attempt` will need."""
        self._bench.attempting(kata.path)

    def clues(self, kata: Kata, case: Case, reference: Reference, seconds: float | None) -> Clues:
        """Look closer at the launch attempted last; nothing where that can't be had."""
        answer = self._answer(self._about_launch(Task.EXPLAIN, kata, case, reference), seconds)
        return answer if isinstance(answer, Clues) else Clues()

    def own(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        seconds: float | None,
        events: int = 0,
    ) -> OnChip | Accident:
        """The learner's launch on its way to the chips.

        `events` is how many single transfers and stalls its predicted schedule keeps.
        """
        ask = self._about_launch(Task.PREDICT, kata, case, reference, events)
        return _expected(OnChip, self._answer(ask, seconds))

    def follow(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Followed | Accident:
        """The blocks of the learner's launch, step by step."""
        ask = self._about_launch(Task.FOLLOW, kata, case, reference)
        return _expected(Followed, self._answer(ask, seconds))

    # ---- questions and answers ----

    def _about_solution(
        self,
        task: Task,
        kata: Kata,
        case: Case,
        reference: Reference | None = None,
        events: int = 0,
    ) -> Ask:
        # By one name, through whatever links: what was answered of a file is then known again.
        return self._ask(task, kata.solution.resolve(), kata, case, reference, events)

    def _about_launch(
        self, task: Task, kata: Kata, case: Case, reference: Reference, events: int = 0
    ) -> Ask:
        return self._ask(task, kata.path, kata, case, reference, events)

    def _ask(
        self,
        task: Task,
        file: Path,
        kata: Kata,
        case: Case,
        reference: Reference | None,
        events: int,
    ) -> Ask:
        if reference is None:
            return Ask(task, str(file), kata.name, case, self.mode)
        return Ask(
            task,
            str(file),
            kata.name,
            case,
            self.mode,
            reference.inputs,
            reference.keywords,
            self.chips,
            events,
        )

    def _answer(self, ask: Ask, seconds: float | None) -> Answer | Accident:
        worker = self._bench.attempting(Path(ask.file))
        worker.ask(ask)
        return worker.answer(seconds)

    def _referred(self, ask: Ask) -> Reference:
        match self._trusted.answer(ask):
            case Reference() as reference:
                return reference
            case Accident() as accident:
                raise BrokenKata(f"the solution's spec: {accident.phrase}\n{accident.message}")
            case Problem() as problem:
                raise BrokenKata(f"the solution's spec: {_in_short(problem)}")
            case answer:
                raise TypeError(f"a worker was asked for a reference and answered {answer!r}")


def _expected(kind: type[T], answer: Answer | Accident) -> T | Accident:
    if not isinstance(answer, (kind, Accident)):
        raise TypeError(f"a worker was asked for its {kind.__name__} and answered {answer!r}")
    return answer


def _in_short(problem: Problem) -> str:
    where = f" (line {problem.place.line}: {problem.place.text})" if problem.place else ""
    return f"{problem.kind}: {problem.message}{where}"
