"""Observations about a launch as data: exceptions, quoted lines, races, results, clues, costs;
findings: which check has failed, and why.

Worker processes send these values, and the checks judge them.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
from dataclasses import dataclass

from pallascope.model.faults import DeviceFault, DmaFault, GpuFault
from pallascope.model.launch import (
    Array,
    ArrayType,
    KernelCall,
    Operation,
    OutputBlocks,
    SourceLine,
    Trace,
)

#: The quantities that one can predict for a program, in order: bytes, operations, the least
#: time in µs, and a kernel's largest possible speedup over XLA's program.
QUANTITIES = ("bytes", "flops", "best_us", "speedup")


@dataclass(frozen=True, slots=True)
class InstructionBytes:
    """One instruction of XLA's program, and the bytes that it reads from and writes to HBM."""

    name: str
    read: int
    written: int

    @property
    def bytes(self) -> int:
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class Baseline:
    """XLA's program for a function: its instructions, and XLA's estimate in seconds.

    `missing` is the reason if there is none.
    """

    steps: tuple[InstructionBytes, ...] = ()
    seconds: float = 0.0
    missing: str = ""

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)


@dataclass(frozen=True, slots=True)
class MeasuredProgram:
    """A program's costs at the sizes of a case.

    `read` and `written` are the bytes of its inputs and results, each once, and `elements` is their
    number of elements. `bandwidth` is HBM's in bytes per second. `peak` is the MXU's in operations
    per second for the dtype that the program multiplies, and `other_peak` for the other dtype.
    `products` of its `flops` are in matrix products. `baseline` is None if it wasn't requested.
    """

    name: str
    read: int
    written: int
    elements: int
    flops: int
    bandwidth: float
    peak: float
    other_peak: float
    baseline: Baseline | None = None
    products: int = 0

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def best(self) -> float:
        """The least time in seconds, by the roofline."""
        return max(self.bytes / self.bandwidth, self.flops / self.peak)

    @property
    def speedup(self) -> float:
        """The largest possible speedup over XLA's program, if both run at the roofline."""
        assert self.baseline
        return max(self.baseline.bytes / self.bandwidth, self.flops / self.peak) / self.best


@dataclass(frozen=True, slots=True)
class Measured:
    """The programs of a kata on one chip."""

    programs: tuple[MeasuredProgram, ...]


class TrialVerdict(enum.Enum):
    """A test's verdict on a kernel."""

    PASSED = "passed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Trial:
    """The verdict of a kata's test on one version of the kernel under test.

    `kernel` completes the phrase "a kernel that …". `error` and `line` belong to the exception that
    rejected it. `calls` is the number of times that the test called the kernel.
    """

    kernel: str
    right: bool
    verdict: TrialVerdict
    calls: int
    error: str = ""
    line: int = 0


LINE_LIMIT = 500  # characters


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file: its name, and its content when it was read.

    `others` are files with parts of its kernels, and `shown` is the name of one of these in
    messages.
    """

    file: str
    content: bytes
    others: tuple[SourceFile, ...] = ()
    shown: str = ""

    @property
    def lines(self) -> list[str]:
        return self.content.decode(errors="replace").splitlines()

    def lines_of(self, function: str) -> range:
        """The lines of a function at the top of the file (1-based); empty if there is none."""
        try:
            statements = ast.parse(self.content).body
        except (SyntaxError, ValueError):
            return range(0)
        for each in statements:
            if isinstance(each, ast.FunctionDef) and each.name == function:
                return range(each.lineno, (each.end_lineno or each.lineno) + 1)
        return range(0)

    def place(self, number: int, file: str = "") -> SourceLine:
        """Line `number` (1-based) of this file, or of the other `file`."""
        for other in self.others:
            if other.file == file:
                return dataclasses.replace(other.place(number), file=other.shown)
        lines = self.lines
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return SourceLine(number, text[:LINE_LIMIT])

    @property
    def files(self) -> tuple[str, ...]:
        """The names of this file and the others."""
        return (self.file, *(other.file for other in self.others))


class Mode(enum.Enum):
    """How a kernel is run: by which interpreter, or compiled."""

    STRICT = "strict"
    INTERPRET = "interpret"
    COMPILED = "compiled"


class Stage(enum.Enum):
    """The stage at which an exception was raised."""

    IMPORT = "import"
    TRACE = "trace"
    RUN = "run"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Problem:
    """An exception raised by the judged code, or by Pallas on its behalf."""

    stage: Stage
    kind: str  # the exception's class name
    message: str
    place: SourceLine | None = None
    todo: bool = False  # the stub's own NotImplementedError
    traceback: str = ""
    operation: Operation | None = None  # what Mosaic was lowering
    call: KernelCall | None = None  # the kernel that Mosaic was lowering
    within: SourceLine | None = None  # the region's line that called `place`, in given code


@dataclass(frozen=True, slots=True)
class Access:
    """An access to a part of a buffer, by a core or a copy, in the interpreter's words."""

    kind: str  # "read" or "write"
    part: str
    by: str
    line: str  # "FILE:LINE:COLUMN (FUNCTION)", or "pallas_call" for the copy of a block

    def told(self, buffer: str) -> str:
        return f"{self.kind} of {buffer}[{self.part}] from {self.by}, {self.line}"


@dataclass(frozen=True, slots=True)
class Race:
    """Two unordered accesses to one buffer, at least one of them a write.

    `kernel` is the number of kernels that ran before. `name` is that of the buffer in the kernel,
    if it is known. `str` gives the interpreter's message, with the name.
    """

    kernel: int
    buffer: str
    accesses: tuple[Access, Access]
    name: str = ""

    def __str__(self) -> str:
        buffer = f"{self.name} {self.buffer}" if self.name else self.buffer
        accesses = (f"  {access.told(buffer)}" for access in self.accesses)
        return "\n".join(["RACE DETECTED", *accesses])


@dataclass(frozen=True, slots=True)
class LeftOver:
    """A semaphore that isn't zero when its kernel ends. `str` gives the interpreter's message."""

    kernel: int
    semaphore: int
    device: int
    core: int
    count: int

    def __str__(self) -> str:
        return (
            f"Semaphore {self.semaphore} has non-zero count for {self.device} "
            f"(global core {self.core}) at kernel exit: {self.count}"
        )


#: The phrase for a `pl.multiple_of` that isn't true, with which the complaint about it begins.
BROKEN_PROMISE = "pl.multiple_of promises a multiple that the index isn't"


#: The name of an array of which a pipeline copies a tile that goes past the edge.
PIPELINE_INPUT = "a pipeline's input"


@dataclass(frozen=True, slots=True)
class UnwrittenUse:
    """A launch's result changes with the contents of memory that nothing has written.

    `buffers` are those whose contents change it, () if it isn't known. Result `output` has `values`
    at `index`: with the largest value of each dtype in such memory, NaN for floats, and with random
    numbers. With these, the launch may also have raised a `problem`.
    """

    buffers: tuple[str, ...] = ()
    output: int = 0
    index: tuple[int, ...] = ()
    values: tuple[float, float] = (0.0, 0.0)
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class SameSeeds:
    """Two grid steps, or two seeds, for which a launch seeds the generators with the same `words`.

    `seeds` are the two values of the seed's word number `word`.
    """

    word: int
    steps: tuple[tuple[int, ...], tuple[int, ...]]
    seeds: tuple[int, int]
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything observed about the judged launch function on one case."""

    problem: Problem | None = None
    trace: Trace | None = None
    broken_annotation: str = ""  # the message of jaxtyping and beartype about the launch
    outputs: tuple[Array, ...] = ()
    complaints: tuple[str, ...] = ()  # messages that the interpreter printed instead of raising
    printed: str = ""
    trials: tuple[Trial, ...] = ()  # a kata's test: its verdict on each kernel
    copy_faults: tuple[DmaFault, ...] = ()  # faults of manual DMA, in the order of the run
    device_faults: tuple[DeviceFault, ...] = ()
    devices: int = 1  # the number of devices in the run
    gpu_faults: tuple[GpuFault, ...] = ()
    unwritten: UnwrittenUse | None = None  # the values may be right, but only by luck
    same_seeds: SameSeeds | None = None


@dataclass(frozen=True, slots=True)
class Clues:
    """Observations that are made only if a result is wrong.

    `with_zeros` are the results if unwritten memory holds zeros instead of NaN. `shares` are the
    spec's results for single blocks of inputs. `padding` names the kernel's inputs whose padding
    alone causes NaN, None if that couldn't be tried. `edge` describes an operation that XLA on the
    CPU computes differently, and `as_xla` are the results with XLA's. `finite` are the results for
    inputs with zeros instead of NaN and infinity, if some hold such numbers. `nonfinite_by` are the
    operations in kernels that make NaN of other numbers, or infinity of finite ones if the results
    hold no NaN, and their lines (0 in other files).
    """

    output_blocks: OutputBlocks | None = None
    with_zeros: tuple[Array, ...] = ()
    shares: tuple[Share, ...] = ()
    padding: tuple[str, ...] | None = None
    edge: str = ""
    as_xla: tuple[Array, ...] = ()
    finite: tuple[Array, ...] = ()
    nonfinite_by: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The spec's results with a change of its inputs or of an operation: "x were 1".

    `look` says where a kernel may differ from the spec in this way.
    """

    change: str
    look: str
    results: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Repaired:
    """The results of the judged launch with one change in a line: "had <= instead of <".

    All are empty if no tried change gives nearly the right results.
    """

    change: str = ""
    line: int = 0
    results: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """The spec's results with all of input `name` but one block along `axis` set to zero."""

    name: str
    axis: int
    which: str  # "first" or "last"
    results: tuple[Array, ...]


_NO_POSITIONS = Array("int64", (0,), b"")


@dataclass(frozen=True, slots=True)
class ResultSample:
    """Some elements of a result of this `shape`: `values` at the row-major positions `at`, int64.

    `unwritten` is the position of an element in a block that no grid step visits; None if there is
    none. `kept` are those of `at` in such blocks of an output that has an input's memory: their
    values are the input's. `targets` is the number of elements whose blocks were asked for, and
    `refused` the reason why one of these blocks can't be computed.
    """

    shape: tuple[int, ...]
    at: Array
    values: Array
    unwritten: int | None = None
    kept: Array = _NO_POSITIONS
    targets: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class BlockSample:
    """Some elements of each result of a launch at production size.

    `why_not` is the reason if no element could be computed, and `problem` the exception of a run.
    `too_long`: the launch only runs as a whole, and that takes too long, as for some right kernels.
    A run as a whole finds `copy_faults`, and `device_faults` between the chips of a mesh.
    """

    results: tuple[ResultSample, ...] = ()
    why_not: str = ""
    problem: Problem | None = None
    too_long: bool = False
    copy_faults: tuple[DmaFault, ...] = ()
    device_faults: tuple[DeviceFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The two possible values of each element of a random result, `low` and `high`.

    `chance` is the probability of `high`. All are float64 and have the result's shape.
    """

    low: Array
    high: Array
    chance: Array


@dataclass(frozen=True, slots=True)
class Repeats:
    """Two more runs of a launch: `again` with its grid steps in another order on one core, and
    `other_seed` with another seed, which `changed` describes."""

    again: Observation | Accident
    other_seed: Observation | Accident
    changed: str


@dataclass(frozen=True, slots=True)
class Reference:
    """Inputs and expected results of one case, computed by the trusted worker.

    `expected` is float64 for floating results; `results` has the spec's dtypes and shapes.
    `contraction` is the number of terms in the longest sum behind one element. `sways` is the
    largest change of each expected result if the inputs change by a rounding to float32. `outcomes`
    has an entry for each result, None if it isn't random; () if none is random.
    """

    names: tuple[str, ...]
    inputs: tuple[Array, ...]
    keywords: dict[str, int]
    expected: tuple[Array, ...]
    results: tuple[ArrayType, ...]
    annotations: tuple[str, ...]  # of the results, as the solution's launch declares them
    contraction: int
    sways: tuple[float, ...] = ()
    outcomes: tuple[Outcomes | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Accident:
    """A worker process failed to answer: it was stopped, or it died.

    `killed`: by a signal that the process doesn't cause by itself, or for an unknown reason. A
    retry may succeed.
    """

    phrase: str
    message: str
    place: SourceLine | None = None
    printed: str = ""
    stuck: bool = False  # it was still running when it was stopped
    kept_waiting: bool = False  # and the machine may have kept it from answering in time
    crashed: bool = False  # a signal ended it
    last_words: str = ""  # the last message of a native library that aborted, in one line
    killed: bool = False


@dataclass(frozen=True, slots=True)
class OnGpu:
    """The results of lowering and compiling a launch for the GPU `chip`.

    `compiled` is a `pallascope.gpu.Compiled` as bytes: its kernels, or the reason why they are
    refused. It is b"" if a `problem` was raised before, or if no compiler is available, for which
    `not_compiled` is the reason. `lowered`: jax lowered it. If it allocates too much shared memory,
    `buffers` are its allocations with their bytes, the largest first. `program` is the
    `LoweredProgram` as bytes, b"" if there is none.
    """

    chip: str
    problem: Problem | None = None
    compiled: bytes = b""
    not_compiled: str = ""
    lowered: bool = False
    buffers: tuple[tuple[str, int], ...] = ()
    program: bytes = b""


class Check(enum.Enum):
    """One rung of the ladder: a check that a kernel must pass on a hidden case."""

    RUNS = "runs"
    CONTRACT = "contract"
    OWN_WORK = "own_work"
    PALLAS_USED = "pallas_used"
    PREDICTIONS = "predictions"
    PLANTED = "planted"
    VALUES = "values"
    RANDOM = "random"
    BLOCKS = "blocks"
    LOWERS = "lowers"
    COMPILES = "compiles"
    COST = "cost"

    @property
    def title(self) -> str:
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a check failed: a phrase for a table cell, and the whole explanation.

    `full` is an exception's whole traceback, which -vv shows.
    """

    check: Check
    phrase: str
    message: str
    full: str = ""


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A rung that could not be judged, and why. Its star and those above it are not given.

    No fault of the kernel is known.
    """

    check: Check
    why: str

    def __str__(self) -> str:
        return f"not judged: {self.check.title} ({self.why})"


@dataclass(frozen=True, slots=True)
class Roundings:
    """How often a kernel may round: each result to its own dtype, and the operands of its sums to
    the coarsest floating dtype among the inputs."""

    results: int = 2
    operands: int = 0
