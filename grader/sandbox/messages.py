"""The questions to workers and their answers, by role; limits of texts and traces, cores, DMA mode.

A launch goes from process to process as the bytes of its trace, never as code.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

from grader.verdict import Case
from pallascope.model import (
    Array,
    ArrayType,
    BlockSample,
    Clues,
    Hypothesis,
    KernelCall,
    Measured,
    OnGpu,
    Problem,
    Reference,
    Repaired,
    Share,
    SourceFile,
    SourceLine,
    Stage,
)
from pallascope.runs.questions import (
    KIND_LIMIT,
    MESSAGE_LIMIT,
    CompileForGpu,
    FollowBlocks,
    InvestigateRun,
    Predict,
    ReadTrace,
    RepairRun,
    RunResult,
    RunTrace,
    SampleBlocks,
    TargetDevice,
    Warm,
    Warmed,
)
from pallascope.tools import codec
from pallascope.tools.text import MAX_CHARACTERS, printable
from pallascope.tpu import OnChip
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.pipeline_steps import LaunchMotion


class WorkerRole(enum.Enum):
    """The role of a worker process."""

    TRUSTED = "trusted"  # imports solutions: inputs, expected results, the solution's traces
    ATTEMPTING = "attempting"  # imports the learner's current kata, and traces it
    SPARE = "spare"  # will become ATTEMPTING; it is warm, and has imported no kata yet
    RUNNING = "running"  # runs traces
    MESHED = "meshed"  # runs traces of launches for several devices
    COMPILING = "compiling"  # lowers and compiles traces for TPUs


# ---- to the trusted worker, of a solution ----


@dataclass(frozen=True, slots=True)
class EvaluateReference:
    """Evaluate inputs and, if `evaluated`, the expected results, which takes long at real sizes.

    Without a `spec` the kata has no inputs, and its results have the types `results`.
    """

    source: SourceFile
    name: str  # the kata's
    case: Case
    evaluated: bool = True
    spec: bool = True
    results: tuple[ArrayType, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluateBlocks:
    """Evaluate the spec for single blocks of each input of `calls`.

    With `outputs`, which are wrong results, for other changes of inputs and spec instead.
    """

    source: SourceFile
    name: str
    case: Case
    inputs: tuple[Array, ...]
    calls: tuple[KernelCall, ...]
    outputs: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True)
class EstimateXla:
    """Estimate the time of XLA's program for the spec on a chip, without Pallas."""

    source: SourceFile
    name: str
    case: Case
    inputs: tuple[Array, ...]
    chip: str


@dataclass(frozen=True, slots=True)
class Measure:
    """Find the lower bounds of functions of the file on a chip and, if `ask_xla`, XLA's costs."""

    source: SourceFile
    case: Case
    programs: tuple[str, ...]
    chip: str
    ask_xla: bool


# ---- to the attempting worker, of a test ----


@dataclass(frozen=True, slots=True)
class TryTest:
    """Import the file and call its test with a launch that the pool runs: see `LaunchCalled`."""

    source: SourceFile
    name: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The launch's results for the test, or the error that the launch raises there."""

    source: SourceFile
    outputs: tuple[Array, ...] = ()
    error: str = ""


# ---- to the trusted worker of a solution, to the attempting one of the learner's file ----


@dataclass(frozen=True, slots=True)
class TraceLaunch:
    """Import the file and trace its launch for a device. The worker doesn't get the inputs' values.

    The file's test passes the launch to `hidden_case.grade`. If `by_name`, the launch is the
    function `name`. If it `predicts` costs, the file may not import the grader.
    """

    source: SourceFile
    name: str
    inputs: tuple[ArrayType, ...]
    keywords: dict[str, int]
    device: TargetDevice
    by_name: bool = False
    predicts: bool = False


# ---- to the judging workers, of a trace ----


def eager_copies(case: Case) -> bool:
    """Whether copies that a kernel starts by hand happen at their start, and not at their wait.

    True for every second hidden case, from the second on. Both ways find wrong starts and waits
    (`pallascope/kernels/dma_hazards.py`), but values that are right by luck differ between them.
    """
    return case.index % 2 == 1


# ---- to any ----


Question = (
    EvaluateReference
    | EvaluateBlocks
    | EstimateXla
    | Measure
    | TryTest
    | Returned
    | TraceLaunch
    | ReadTrace
    | RunTrace
    | InvestigateRun
    | RepairRun
    | Predict
    | CompileForGpu
    | FollowBlocks
    | SampleBlocks
    | Warm
)

# ---- answers ----


@dataclass(frozen=True, slots=True)
class Traced:
    """A launch as bytes, or the problem. `broken_annotation` is jaxtyping's error message."""

    problem: Problem | None = None
    trace: bytes = b""
    broken_annotation: str = ""
    printed: str = ""


@dataclass(frozen=True, slots=True)
class LaunchCalled:
    """A test calls the launch. After the reply, `Returned`, the test goes on."""

    inputs: tuple[Array, ...]
    keywords: dict[str, int]


@dataclass(frozen=True, slots=True)
class FinishedTest:
    """A test has ended, and may have raised."""

    problem: Problem | None = None
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Shares:
    """The spec's results for single blocks, and for changed inputs."""

    shares: tuple[Share, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """XLA's compiler is not available, or gives no estimate."""


Answer = (
    Reference
    | Shares
    | Estimate
    | NoEstimate
    | Measured
    | LaunchCalled
    | FinishedTest
    | Traced
    | RunResult
    | Clues
    | Repaired
    | OnChip
    | OnGpu
    | LaunchMotion
    | BlockSample
    | Warmed
    | Problem
)


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker's first message, when it is ready."""

    backend: str
    jax: str


#: The exit code of a worker whose connection to the grader is closed.
CONNECTION_CLOSED = 71

# ---- the answers to each question ----

MOST_TOLD = 1 << 20  # bytes of an answer from a process with a learner's file, without arrays
MOST_TRACED = MOST_TOLD + (64 << 20)  # and with a trace, or arrays; see kernels.carrier.limits
#: Room for the characters that `shortened` adds to a text that it has cut.
_ROOM = 100

#: By question: the types of its answers.
_ANSWERS: dict[type, Any] = {
    EvaluateReference: Reference | Problem,
    EvaluateBlocks: Shares,
    EstimateXla: Estimate | NoEstimate | Problem,
    Measure: Measured | Problem,
    TryTest: LaunchCalled | FinishedTest,
    Returned: LaunchCalled | FinishedTest,
    TraceLaunch: Traced,
    ReadTrace: RunResult,
    RunTrace: RunResult,
    InvestigateRun: Clues,
    RepairRun: Repaired,
    Predict: OnChip,
    CompileForGpu: OnGpu,
    FollowBlocks: LaunchMotion,
    SampleBlocks: BlockSample,
    Warm: Warmed,
}
#: The stages that an exception may have, by the type of the answer.
_STAGES = {Traced: (Stage.IMPORT, Stage.TRACE), FinishedTest: (Stage.IMPORT, Stage.RUN)}


def understood(message: bytes, question: Question, stranger: bool) -> Answer:
    """The answer to a question, with printable texts.

    A `stranger` has imported a learner's file, so it may send anything: its answers are bounded,
    and an exception's lines are read from the file. Raises TypeError or ValueError for an answer
    to another question, also RecursionError and struct.error for bytes that aren't a message.
    """
    if stranger and len(message) > MOST_TRACED:
        raise ValueError(f"an answer of {len(message)} bytes")
    most = MOST_TOLD if stranger else None
    answer = codec.unpack(_ANSWERS[type(question)], message, most, printable)
    if not (stranger and isinstance(answer, Traced | FinishedTest)):
        return answer
    changes: dict[str, Any] = {"printed": answer.printed[: MAX_CHARACTERS + _ROOM]}
    if answer.problem:
        changes["problem"] = _bounded(answer.problem, question.source, _STAGES[type(answer)])
    if isinstance(answer, Traced):
        changes["broken_annotation"] = answer.broken_annotation[: MAX_CHARACTERS + _ROOM]
    return dataclasses.replace(answer, **changes)


def _bounded(problem: Problem, source: SourceFile, stages: tuple[Stage, ...]) -> Problem:
    """A learner's exception, bounded and with lines of the file. Raises ValueError."""
    if problem.stage not in stages:
        raise ValueError(f"an exception while it should {problem.stage.value}")
    places = [each and place_in(source, each.line) for each in (problem.place, problem.within)]
    return Problem(
        problem.stage,
        problem.kind[: KIND_LIMIT + _ROOM],
        problem.message[: MESSAGE_LIMIT + _ROOM],
        places[0],
        problem.todo,
        problem.traceback[: MAX_CHARACTERS + _ROOM],
        within=places[1],
    )


def place_in(source: SourceFile, line: int) -> SourceLine:
    """A line of a file, with printable text."""
    place = source.place(line)
    return SourceLine(place.line, printable(place.text))
