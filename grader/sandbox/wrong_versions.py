"""Results of known mistakes, and a learner's test tried on mutants.

What comes out of a kata's known mistakes, for a wrong result to be compared with.
A wrong version is the solution with one known mistake made. It is traced by the worker that knows
solutions, and run like any other launch. That takes about as long as the learner's own run, so the
likeliest are tried first, and all together have a second.

A learner's test, tried on versions of the kernel under test.
The test runs in the process that imported the learner's file. Where it calls the launch, the call
comes here: the solution's file with a planted kernel is traced by the worker that knows solutions,
and run with the test's arrays like any other launch. So the kernels never come near the test.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grader.exercise.answer_key import DTYPES, Mistake
from grader.exercise.key_tables import Planted
from grader.exercise.mutants import likeliest_mistakes, planted_version
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
    eager_copies,
)
from grader.sandbox.request_queue import RequestQueue
from grader.sandbox.time_limits import asked_twice
from grader.verdict import Case, Check
from pallascope.model import (
    Accident,
    Array,
    ArrayType,
    Axes,
    Mode,
    Observation,
    Problem,
    SourceFile,
    Stage,
    Trial,
    TrialVerdict,
)
from pallascope.tools.arrays import dtype_of

#: For the known mistakes of one kata, in all hidden cases of one content of the learner's file.
BUDGET = 1.0
KEPT_SITUATIONS = 40  # results


#: Whether a wrong version's results are those that were observed.
Agrees = Callable[[tuple[Array, ...]], bool]


@dataclass(frozen=True, slots=True)
class Situation:
    """A wrong result: of which file, on which case of which kata; how its launch is traced."""

    written: SourceFile
    solution: SourceFile
    mistakes: tuple[Mistake, ...]
    case: Case
    inputs: tuple[Array, ...]
    trace: TraceLaunch
    mode: Mode


class Recollection:
    """Runs known mistakes; remembers what came out, which one it was, and how long it took."""

    def __init__(self, trusted: RequestQueue, runs: Callable[[Axes], RequestQueue]) -> None:
        self._trusted = trusted
        self._runs = runs
        self._results: dict[tuple[object, ...], tuple[Array, ...]] = {}
        self._written: SourceFile | None = None
        self._spent = 0.0
        self._agreed = ""

    def first(self, situation: Situation, agrees: Agrees) -> str:
        """The title of the first mistake whose results agree with what was observed; or "".

        It is "", too, where the solution's results agree in the same sense: then nothing tells the
        mistake from the solution on this case, and the cause is another one.
        """
        if situation.written != self._written:
            self._written, self._spent, self._agreed = situation.written, 0.0, ""
        for mistake, text in self._versions(situation):
            if text.encode() != situation.written.content:  # else, it is what was observed
                results = self._results_of(situation, mistake, text)
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
        versions = likeliest_mistakes(
            situation.written.content.decode(errors="replace"), text, wrong
        )
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
            while len(self._results) > KEPT_SITUATIONS:
                del self._results[next(iter(self._results))]
        return self._results[key]

    def _run(self, situation: Situation, version: str) -> tuple[Array, ...]:
        """What comes out of a wrong version; nothing where it raises."""
        source = SourceFile(situation.solution.file, version.encode())
        question = dataclasses.replace(situation.trace, source=source)
        traced = self._trusted.answer(question, keep=False)
        if not isinstance(traced, Traced) or traced.problem:
            return ()
        case, mode, inputs = situation.case, situation.mode, situation.inputs
        launch = (source, traced.trace, inputs, question.device, question.name)
        run = RunTrace(*launch, mode, case.seed, eager=eager_copies(case))
        ran = self._runs(question.device.mesh).answer(run)
        return ran.outputs if isinstance(ran, RunResult) and not ran.problem else ()


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
class Subject:
    """What is tried: whose test, and the launch in the solution's file that it is to test."""

    written: SourceFile
    name: str  # of the kata
    solution: SourceFile
    launch: str
    case: Case
    chip: str
    mode: Mode


class Trials:
    """Tries tests; remembers what the kernels have returned."""

    def __init__(
        self, trusted: RequestQueue, attempting: RequestQueue, running: RequestQueue
    ) -> None:
        self._trusted = trusted
        self._attempting = attempting
        self._running = running
        self._returned: dict[tuple[object, ...], Returned] = {}

    def of(
        self, subject: Subject, kernels: Iterable[Planted], seconds: float | None
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
        self, subject: Subject, kernel: Planted, seconds: float | None
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
        self, subject: Subject, kernel: Planted, seconds: float | None
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
        subject: Subject,
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
        self, subject: Subject, source: SourceFile, called: LaunchCalled, seconds: float | None
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
