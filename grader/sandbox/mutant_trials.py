"""Tries a learner's test on mutants of the kernel under test.

The test runs in the process that imported the learner's file. It sends each call of the launch to
this module. The solution's worker traces the solution's file with a planted kernel, which then runs
with the test's arrays like any other launch. So the test's process never has the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from grader.exercise.answer_key import DTYPES
from grader.exercise.key_tables import Planted
from grader.exercise.mutants import planted_version
from grader.sandbox import worker_pool
from grader.sandbox.messages import (
    FinishedTest,
    LaunchCalled,
    Returned,
    Traced,
    TraceLaunch,
    TryTest,
)
from grader.sandbox.request_queue import RequestQueue
from grader.sandbox.time_limits import asked_twice
from grader.verdict import Case
from pallascope.model import (
    Accident,
    Array,
    ArrayType,
    Mode,
    Observation,
    Problem,
    SourceFile,
    Stage,
    Trial,
    TrialVerdict,
)
from pallascope.runs.questions import RunResult, RunTrace, TargetDevice
from pallascope.tools.arrays import dtype_of

#: Calls of one kernel by one test. Further calls raise, and after as many again the test counts as
#: endless.
MOST_CALLS = 40
#: The largest size, number of arrays, and number of dimensions that a launch accepts.
MOST_SIZE, MOST_ARRAYS, MOST_AXES = 1 << 40, 64, 32
#: Exceptions of a planted kernel whose text is wrong, independent of its arguments.
BROKEN = ("SyntaxError", "IndentationError", "NameError", "AttributeError")
#: The number of cached results: a test calls each kernel with the same arrays.
KEPT = 64


class BrokenPlanted(Exception):
    """A planted kernel is broken, so no test can be graded with it."""


@dataclass(frozen=True, slots=True)
class TrialSubject:
    """A learner's test, and the launch in the solution's file that it has to test."""

    written: SourceFile
    name: str  # of the kata
    solution: SourceFile
    launch: str
    case: Case
    chip: str
    mode: Mode


class MutantTrials:
    """Tries tests; caches the kernels' results.

    Each kernel is tried in a new process, so that a test can't compare it with those before:
    `dismiss` ends the process of the last trial.
    """

    def __init__(
        self,
        trusted: RequestQueue,
        attempting: RequestQueue,
        running: RequestQueue,
        dismiss: Callable[[], None],
    ) -> None:
        self._trusted = trusted
        self._attempting = attempting
        self._running = running
        self._dismiss = dismiss
        self._returned: dict[tuple[object, ...], Returned] = {}

    def of(
        self, subject: TrialSubject, kernels: Iterable[Planted], seconds: float | None
    ) -> Observation | Accident:
        """The test's verdict on each kernel, or the problem of a file that gets no verdict.

        Raises BrokenPlanted if a planted kernel doesn't fit the solution.
        """
        trials: list[Trial] = []
        printed = ""
        for kernel in kernels:
            tried, calls = self._tried(subject, kernel, seconds)
            if isinstance(tried, Accident):
                return tried
            printed = printed or tried.printed
            if tried.problem and (tried.problem.todo or tried.problem.stage is Stage.IMPORT):
                return Observation(tried.problem, printed=printed)
            trials.append(_trial(kernel, tried.problem, calls))
        return Observation(printed=printed, trials=tuple(trials))

    def _tried(
        self, subject: TrialSubject, kernel: Planted, seconds: float | None
    ) -> tuple[FinishedTest | Accident, int]:
        """The end of the test, and the number of its calls."""
        calls = 0

        def once(limit: float | None) -> FinishedTest | Accident | None:
            nonlocal calls
            found, calls = self._tried_once(subject, kernel, limit)
            return found

        found = asked_twice(once, seconds)
        self._attempting.note_killed(found)
        return found or worker_pool.calls_without_end(calls), calls

    def _tried_once(
        self, subject: TrialSubject, kernel: Planted, seconds: float | None
    ) -> tuple[FinishedTest | Accident | None, int]:
        """The same, tried once; None if the test doesn't stop calling the kernel."""
        try:
            text = planted_version(subject.solution.content.decode(), kernel)
        except ValueError as error:
            raise BrokenPlanted(str(error)) from None
        source = SourceFile(subject.solution.file, text.encode())
        self._dismiss()
        question: TryTest | Returned = TryTest(subject.written, subject.name)
        for calls in range(2 * MOST_CALLS):
            # Not twice: a new process has no open call, so it can't receive a result.
            answer = self._attempting.answer(question, seconds, keep=False, twice=False)
            if isinstance(answer, FinishedTest | Accident):
                return answer, calls
            if not isinstance(answer, LaunchCalled):
                raise TypeError(f"a worker was to call a test and answered {answer!r}")
            question = self._result(subject, source, answer, seconds, calls >= MOST_CALLS)
        return None, 2 * MOST_CALLS

    def _result(
        self,
        subject: TrialSubject,
        source: SourceFile,
        called: LaunchCalled,
        seconds: float | None,
        late: bool,
    ) -> Returned:
        """The results of a version of the launch for a test's call."""
        if late:
            return Returned(subject.written, error=f"more than {MOST_CALLS} calls of the launch")
        if why := _unsound(called):
            return Returned(subject.written, error=why)
        key = (source, called.inputs, tuple(called.keywords.items()), subject.written)
        if key not in self._returned:
            self._returned[key] = self._run(subject, source, called, seconds)
            while len(self._returned) > KEPT:
                del self._returned[next(iter(self._returned))]
        return self._returned[key]

    def _run(
        self, subject: TrialSubject, source: SourceFile, called: LaunchCalled, seconds: float | None
    ) -> Returned:
        types = tuple(ArrayType(array.dtype, array.shape) for array in called.inputs)
        device = TargetDevice(subject.chip)
        question = TraceLaunch(source, subject.launch, types, called.keywords, device, by_name=True)
        traced = self._trusted.answer(question, keep=False)
        if not isinstance(traced, Traced):
            return Returned(subject.written, error=_in_words(traced))
        if traced.problem and traced.problem.kind in BROKEN:
            raise BrokenPlanted(f"a planted kernel is broken: {_in_words(traced.problem)}")
        if traced.problem:
            return Returned(subject.written, error=_in_words(traced.problem))
        run = RunTrace(
            *(source, traced.trace, called.inputs, device),
            *(subject.launch, subject.mode, subject.case.seed),
        )
        ran = self._running.answer(run, seconds, keep=False)
        if not isinstance(ran, RunResult):
            return Returned(subject.written, error=_in_words(ran))
        if ran.problem:
            return Returned(subject.written, error=_in_words(ran.problem))
        return Returned(subject.written, ran.outputs)


def _trial(kernel: Planted, problem: Problem | None, calls: int) -> Trial:
    if problem is None:
        return Trial(kernel.title, kernel.right, TrialVerdict.PASSED, calls)
    said = f"{problem.kind}: {problem.message}" if problem.message else problem.kind
    line = problem.place.line if problem.place else 0
    return Trial(kernel.title, kernel.right, TrialVerdict.REJECTED, calls, said, line)


def _in_words(why: object) -> str:
    match why:
        case Problem():
            return f"{why.kind}: {why.message.partition(chr(10))[0]}"
        case Accident():
            return why.phrase
    raise TypeError(f"a worker answered {why!r} to a question about a launch")


def _unsound(called: LaunchCalled) -> str:
    """Why a launch can't have these inputs; a process with a learner's code may send anything."""
    for name, size in called.keywords.items():
        if not name.isidentifier() or abs(size) > MOST_SIZE:
            return f"{name[:100]}: not a size that a launch takes"
    if len(called.inputs) > MOST_ARRAYS:
        return f"more than {MOST_ARRAYS} arrays"
    for array in called.inputs:
        if array.dtype not in DTYPES:
            return f"the launch takes no {array.dtype[:100]}"
        if not _whole(array):
            return "an array without its elements"
    return ""


def _whole(array: Array) -> bool:
    if len(array.shape) > MOST_AXES or any(not 0 <= n <= MOST_SIZE for n in array.shape):
        return False
    return len(array.data) == math.prod(array.shape) * dtype_of(array.dtype).itemsize
