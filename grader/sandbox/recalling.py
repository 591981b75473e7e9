"""What comes out of a kata's known mistakes, for a wrong result to be compared with.

A wrong version is the solution with one known mistake made. It is traced by the worker that knows
solutions, and run like any other launch. That takes about as long as the learner's own run, so the
likeliest are tried first, and all together have a second.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grader.exercise.keys import Mistake
from grader.exercise.mistakes import likeliest
from grader.model import Array, Axes, Case, Check, Mode, Source
from grader.sandbox.line import Line
from grader.sandbox.messages import Ran, Run, Traced, TraceLaunch, eager_copies

#: For the known mistakes of one kata, in all hidden cases of one content of the learner's file.
BUDGET = 1.0
KEPT = 40  # results


#: Whether a wrong version's results are those that were observed.
Agrees = Callable[[tuple[Array, ...]], bool]


@dataclass(frozen=True, slots=True)
class Situation:
    """A wrong result: of which file, on which case of which kata; how its launch is traced."""

    written: Source
    solution: Source
    mistakes: tuple[Mistake, ...]
    case: Case
    inputs: tuple[Array, ...]
    trace: TraceLaunch
    mode: Mode


class Recollection:
    """Runs known mistakes; remembers what came out, which one it was, and how long it took."""

    def __init__(self, trusted: Line, runs: Callable[[Axes], Line]) -> None:
        self._trusted = trusted
        self._runs = runs
        self._results: dict[tuple[object, ...], tuple[Array, ...]] = {}
        self._written: Source | None = None
        self._spent = 0.0
        self._agreed = ""

    def first(self, situation: Situation, agrees: Agrees) -> str:
        """The title of the first mistake whose results agree with what was observed; or "".

        It is "", too, where the solution's results agree in the same sense: then nothing tells the
        mistake from the solution on this case, and the cause is another one.
        """
        if situation.written != self._written:
            self._written, self._spent, self._agreed = situation.written, 0.0, ""
        for mistake, version in self._versions(situation):
            if version.encode() != situation.written.content:  # else, it is what was observed
                results = self._results_of(situation, mistake, version)
                if not results or not agrees(results):
                    continue
            if agrees(self._run(situation, situation.solution.content.decode())):
                return ""
            self._agreed = mistake.title
            return mistake.title
        return ""

    def _versions(self, situation: Situation) -> Sequence[tuple[Mistake, str]]:
        text = situation.solution.content.decode()
        # Others raise, or have the right values.
        wrong = [m for m in situation.mistakes if m.caught in (Check.VALUES, Check.RANDOM)]
        versions = likeliest(situation.written.content.decode(errors="replace"), text, wrong)
        # What it was on one hidden case, it is likely on the next.
        return sorted(versions, key=lambda pair: pair[0].title != self._agreed)

    def _results_of(
        self, situation: Situation, mistake: Mistake, version: str
    ) -> tuple[Array, ...]:
        """What comes out of a wrong version; nothing where it raises, or no time is left."""
        key = (situation.solution, version, str(situation.case), situation.case.seed)
        if key not in self._results:
            if self._spent >= BUDGET and mistake.title != self._agreed:
                return ()
            started = time.perf_counter()
            self._results[key] = self._run(situation, version)
            self._spent += time.perf_counter() - started
            while len(self._results) > KEPT:
                del self._results[next(iter(self._results))]
        return self._results[key]

    def _run(self, situation: Situation, version: str) -> tuple[Array, ...]:
        """What comes out of a wrong version; nothing where it raises."""
        source = Source(situation.solution.file, version.encode())
        question = dataclasses.replace(situation.trace, source=source)
        traced = self._trusted.answer(question, keep=False)
        if not isinstance(traced, Traced) or traced.problem:
            return ()
        case, mode, inputs = situation.case, situation.mode, situation.inputs
        name, chip = question.name, question.chip
        launch = (source, name, traced.trace, inputs)
        run = Run(*launch, mode, case.seed, chip, eager=eager_copies(case), mesh=question.mesh)
        ran = self._runs(question.mesh).answer(run)
        return ran.outputs if isinstance(ran, Ran) and not ran.problem else ()
