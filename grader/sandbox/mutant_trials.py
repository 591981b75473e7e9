"""Tries a learner's test on mutants of the kernel under test.

The test runs in the process that imported the learner's file. Where it calls the launch, the call
comes here: the solution's file with a planted kernel is traced by the worker that knows solutions,
and run with the test's arrays like any other launch. So the kernels never come near the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from grader.exercise.answer_key import DTYPES
from grader.exercise.key_tables import Planted
from grader.exercise.mutants import planted_version
from grader.sandbox import worker_pool
from grader.sandbox.messages import (
    FinishedTest,
    LaunchCalled,
    Returned,
    RunResult,
    RunTrace,
    TargetDevice,
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
from pallascope.tools.arrays import dtype_of

#: Calls of one kernel by one test; more are refused, and of a test that goes on, no answer is
#: waited for.
MOST_CALLS = 40
#: What a launch is called with, at most: a size, arrays, and dimensions of an array.
MOST_SIZE, MOST_ARRAYS, MOST_AXES = 1 << 40, 64, 32
#: What a planted kernel raises whose text is at fault, whatever it is called with.
BROKEN = ("SyntaxError", "IndentationError", "NameError", "AttributeError")
#: Results that are kept: a test calls each kernel with the same arrays.
KEPT = 64


class BrokenPlanted(Exception):
    """A planted kernel can't be used: nobody's test can be graded with it."""


@dataclass(frozen=True, slots=True)
class TrialSubject:
    """What is tried: whose test, and the launch in the solution's file that it is to test."""

    written: SourceFile
    name: str  # of the kata
    solution: SourceFile
    launch: str
    case: Case
    chip: str
    mode: Mode


class MutantTrials:
    """Tries tests; remembers what the kernels have returned."""

    def __init__(
        self, trusted: RequestQueue, attempting: RequestQueue, running: RequestQueue
    ) -> None:
        self._trusted = trusted
        self._attempting = attempting
        self._running = running
        self._returned: dict[tuple[object, ...], Returned] = {}

    def of(
        self, subject: TrialSubject, kernels: Iterable[Planted], seconds: float | None
    ) -> Observation | Accident:
        """What a test says of each kernel; the problem with the file where it does not get so far.

        Raises BrokenPlanted where a planted kernel does not fit the solution.
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
        """How the test ends, and how often it called the kernel."""
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
        """The same, tried once; None where the test goes on calling the kernel."""
        try:
            text = planted_version(subject.solution.content.decode(), kernel)
        except ValueError as error:
            raise BrokenPlanted(str(error)) from None
        source = SourceFile(subject.solution.file, text.encode())
        question: TryTest | Returned = TryTest(subject.written, subject.name)
        for calls in range(2 * MOST_CALLS):
            # Not twice: a new process has called no kernel, so it can't take a result.
            answer = self._attempting.answer(question, seconds, keep=False, twice=False)
            if isinstance(answer, FinishedTest | Accident):
                return answer, calls
            if not isinstance(answer, LaunchCalled):
                raise TypeError(f"a test was called and answered {answer!r}")
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
        """What a version of the launch returns for what the test has called it with."""
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
    raise TypeError(f"a worker was asked about a launch and answered {why!r}")


def _unsound(called: LaunchCalled) -> str:
    """Why these can't be a launch's inputs: a process with somebody's code in it has sent them."""
    for name, size in called.keywords.items():
        if not name.isidentifier() or abs(size) > MOST_SIZE:
            return f"{name[:100]}: no launch takes such a size"
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
