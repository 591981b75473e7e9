"""The questions to workers and their answers, by role; limits of texts and traces, cores, DMA mode.

A launch goes from process to process as the bytes of its trace, never as code.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from typing import Any

from grader.verdict import Case
from pallascope.model import (
    Array,
    ArrayType,
    Axes,
    BlockSample,
    DeviceFault,
    DmaFault,
    GpuFault,
    Hypothesis,
    KernelCall,
    Measured,
    Mode,
    OnGpu,
    OutputBlocks,
    Problem,
    Reference,
    Repaired,
    SameSeeds,
    Share,
    SourceFile,
    SourceLine,
    Stage,
    Trace,
    UnwrittenUse,
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
class TargetDevice:
    """The chip that a launch is traced for, or a `mesh` of such chips. `target` is Target.name."""

    chip: str
    target: str = "tpu"
    mesh: Axes = ()


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


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """A question about the trace of a launch; `source` is the file that the launch comes from."""

    source: SourceFile
    trace: bytes
    inputs: tuple[Array, ...]
    device: TargetDevice


@dataclass(frozen=True, slots=True)
class ReadTrace(TraceQuestion):
    """Read the trace of the launch `name` without running it.

    If `followed`, also look for accesses in a wrong order. This is for launches for GPUs. If the
    input number `seed` determines all randomness, also compare the seeds of all grid steps; up to
    `alike` results are drawn with the same bits.
    """

    name: str
    followed: bool = False
    seed: int | None = None
    alike: int = 1


@dataclass(frozen=True, slots=True)
class RunTrace(TraceQuestion):
    """Read the trace, and run it in this mode; the simulated `cores` share its steps.

    Copies that the kernel starts by hand happen at their wait or, if `eager`, at their start. A
    launch for a GPU runs in Mosaic GPU's interpreter in every mode. If `again`, it also runs with
    other contents of unwritten memory, which must not change the results.
    """

    name: str
    mode: Mode
    seed: int
    cores: int = 2
    eager: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class InvestigateRun(TraceQuestion):
    """Look for the cause of a wrong result.

    `with_zeros`, also by a run with zeros in unwritten memory; `infinite`, by one that finds the
    operations that make infinity.
    """

    mode: Mode
    seed: int
    with_zeros: bool
    eager: bool = False
    infinite: bool = False


@dataclass(frozen=True, slots=True)
class RepairRun(TraceQuestion):
    """Run the launch with single operations of its kernels changed, until it has the `expected`
    results.

    If there is a `change`, with its line, it is the only one that is made.
    """

    mode: Mode
    seed: int
    expected: tuple[Array, ...]
    eager: bool = False
    change: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Predict(TraceQuestion):
    """Lower the launch, compile it and simulate it; keep `events` single transfers and stalls."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class CompileForGpu(TraceQuestion):
    """Lower the launch for a GPU; if `compiled`, also compile it."""

    compiled: bool = True


@dataclass(frozen=True, slots=True)
class FollowBlocks(TraceQuestion):
    """Find the positions of the launch's blocks, step by step."""


@dataclass(frozen=True, slots=True)
class SampleBlocks(TraceQuestion):
    """Compute a few blocks of the results, at a size at which the launch isn't run.

    Inputs without contents repeat the values in `contents`, which aligns with `inputs`. At least
    the blocks of `targets` elements are computed.
    """

    contents: tuple[Array, ...]
    seed: int
    targets: int


# ---- to any ----


@dataclass(frozen=True, slots=True)
class Warm:
    """Trace a dummy kernel, run it in this mode, and compile it for these chips.

    After that, the process has done everything that is slow the first time. Unless `compiles`, the
    compiler is only loaded.
    """

    mode: Mode | None = None
    chips: tuple[str, ...] = ()
    compiles: bool = True
    source: SourceFile = field(default_factory=lambda: SourceFile("", b""))


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
class RunResult:
    """The data of a trace and, if it was run, the result of the run."""

    problem: Problem | None = None
    trace: Trace | None = None
    outputs: tuple[Array, ...] = ()
    complaints: tuple[str, ...] = ()
    printed: str = ""
    copy_faults: tuple[DmaFault, ...] = ()
    device_faults: tuple[DeviceFault, ...] = ()
    gpu_faults: tuple[GpuFault, ...] = ()
    unwritten: UnwrittenUse | None = None
    same_seeds: SameSeeds | None = None


@dataclass(frozen=True, slots=True)
class Investigated:
    """The clues that come from a trace.

    `edge` describes an operation whose result on a TPU differs from that of XLA on the CPU;
    `as_xla` are the results with XLA's; both are empty if there is none. `finite` are the results
    for inputs with zeros instead of NaN and infinity. `nonfinite_by` are the operations
    that make NaN of other numbers, or infinity of finite ones, and their lines.
    """

    walk: OutputBlocks | None = None
    with_zeros: tuple[Array, ...] = ()
    padding: tuple[str, ...] | None = None
    edge: str = ""
    as_xla: tuple[Array, ...] = ()
    finite: tuple[Array, ...] = ()
    nonfinite_by: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Shares:
    """The spec's results for single blocks, and for changed inputs."""

    shares: tuple[Share, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """XLA's compiler is not available, or gives no estimate."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """The dummy kernel has run, and is compiled."""


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
    | Investigated
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
#: Characters of an exception's class and text. pytest's process searches both for patterns, and for
#: some patterns the time grows with the square of the length.
KIND_LIMIT, MESSAGE_LIMIT = 500, 4_000
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
    InvestigateRun: Investigated,
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
