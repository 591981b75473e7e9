"""Runs known mistakes, to compare their results with a wrong result.

A wrong version is the solution with one known mistake. The solution's worker traces it, and it runs
like any other launch. Each takes about as long as the learner's own run, so only the likeliest run.
Their number is limited, not their time: so the message is the same on a busy machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grader.exercise.answer_key import Mistake
from grader.exercise.mutants import likeliest_mistakes
from grader.sandbox.messages import Traced, TraceLaunch, eager_copies
from grader.sandbox.request_queue import RequestQueue
from grader.verdict import Case
from pallascope.model import (
    Array,
    Axes,
    Check,
    Mode,
    SourceFile,
)
from pallascope.runs.questions import RunResult, RunTrace

#: The most known mistakes that run for one content of the file, in all hidden cases of a session.
MOST_RUNS = 3
KEPT_RESULTS = 40


#: Whether a wrong version's results equal the observed ones.
Agrees = Callable[[tuple[Array, ...]], bool]


@dataclass(frozen=True, slots=True)
class WrongResult:
    """A wrong result: its file, the solution and its known mistakes, the case, the launch."""

    written: SourceFile
    solution: SourceFile
    mistakes: tuple[Mistake, ...]
    case: Case
    inputs: tuple[Array, ...]
    trace: TraceLaunch
    mode: Mode


class KnownMistakeRuns:
    """Runs known mistakes. Remembers their results, the one that agreed, and how many have run."""

    def __init__(self, trusted: RequestQueue, runs: Callable[[Axes], RequestQueue]) -> None:
        self._trusted = trusted
        self._runs = runs
        self._results: dict[tuple[object, ...], tuple[Array, ...]] = {}
        self._attempt: tuple[SourceFile, int] | None = None
        self._tried = 0
        self._agreed = ""

    def first(self, wrong_result: WrongResult, agrees: Agrees) -> str:
        """The title of the first mistake whose results agree with the observed ones; or "".

        Also "" if the solution's results agree in the same sense: then this case can't distinguish
        the mistake from the solution, so the cause is another one.
        """
        attempt = wrong_result.written, wrong_result.case.session_seed
        if attempt != self._attempt:
            self._attempt, self._tried, self._agreed = attempt, 0, ""
        solution = wrong_result.solution.content.decode()
        for mistake, text in self._versions(wrong_result):
            if text.encode() != wrong_result.written.content:  # else, its results are the observed
                results = self._results_of(wrong_result, mistake, text)
                if not results or not agrees(results):
                    continue
            if agrees(self._run_once(wrong_result, solution)):
                return ""
            self._agreed = mistake.title
            return mistake.title
        return ""

    def _versions(self, wrong_result: WrongResult) -> Sequence[tuple[Mistake, str]]:
        text = wrong_result.solution.content.decode()
        # All other mistakes raise, or give the right values.
        wrong = [m for m in wrong_result.mistakes if m.caught in (Check.VALUES, Check.RANDOM)]
        versions = likeliest_mistakes(
            wrong_result.written.content.decode(errors="replace"), text, wrong
        )
        # The mistake of one hidden case is likely that of the next.
        return sorted(versions, key=lambda pair: pair[0].title != self._agreed)

    def _results_of(
        self, wrong_result: WrongResult, mistake: Mistake, version: str
    ) -> tuple[Array, ...]:
        """The results of a wrong version; () if it raises, or if enough have run."""
        again = mistake.title == self._agreed
        if self._tried >= MOST_RUNS and not again:
            return ()
        results = self._run_once(wrong_result, version)
        self._tried += bool(results) and not again
        return results

    def _run_once(self, wrong_result: WrongResult, version: str) -> tuple[Array, ...]:
        """The results of a version on a case, which are kept; () if it raises."""
        case = _case_of(wrong_result, version)
        if case not in self._results:
            results = self._run(wrong_result, version)
            if not results:  # maybe an accident: the next file tries again
                return ()
            self._results[case] = results
            while len(self._results) > KEPT_RESULTS:
                del self._results[next(iter(self._results))]
        return self._results[case]

    def _run(self, wrong_result: WrongResult, version: str) -> tuple[Array, ...]:
        """The results of a wrong version; () if it raises."""
        source = SourceFile(wrong_result.solution.file, version.encode())
        question = dataclasses.replace(wrong_result.trace, source=source)
        traced = self._trusted.answer(question, keep=False)
        if not isinstance(traced, Traced) or traced.problem:
            return ()
        case, mode, inputs = wrong_result.case, wrong_result.mode, wrong_result.inputs
        launch = (source, traced.trace, inputs, question.device, question.name)
        run = RunTrace(*launch, mode, case.seed, eager=eager_copies(case))
        ran = self._runs(question.device.mesh).answer(run)
        return ran.outputs if isinstance(ran, RunResult) and not ran.problem else ()


def _case_of(wrong_result: WrongResult, version: str) -> tuple[object, ...]:
    """The key of a version's results: its text and the case that it runs on."""
    return wrong_result.solution, version, str(wrong_result.case), wrong_result.case.seed
