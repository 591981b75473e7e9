"""What workers report about a launch: exceptions, results, clues, costs.

What is known of a program, and what came of a learner's test: for katas without a kernel.

What workers report about a launch: exceptions, results, clues. The checks judge it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pallascope.model.faults import CopyFault, DeviceFault, GpuFault
from pallascope.model.launch import (
    Array,
    ArrayType,
    KernelCall,
    Operation,
    SourceLine,
    Trace,
    Walk,
)

#: What is asked of a program, in the order of a learner's answers: bytes, operations, µs at best,
#: how many times as fast as XLA's program a kernel may be.
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
    """What XLA makes of a program: its instructions, and its own estimate in seconds.

    Where XLA could not be asked, `missing` says why.
    """

    steps: tuple[InstructionBytes, ...] = ()
    seconds: float = 0.0
    missing: str = ""

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)


@dataclass(frozen=True, slots=True)
class MeasuredProgram:
    """A program at the sizes of a case, as it is measured.

    `read` and `written` are the bytes of its inputs and results, each once, and `elements` how many
    elements these have. `bandwidth` is that of HBM in bytes a second, `peak` how many of its
    operations the MXU does in a second, and `other_peak` that of the dtype that it does not
    multiply. Of its `flops`, `products` are those of matrix products. `baseline` is None where
    nobody asked for it.
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
        """Seconds that no program can be faster than: the roofline."""
        return max(self.bytes / self.bandwidth, self.flops / self.peak)

    @property
    def speedup(self) -> float:
        """How many times as fast as XLA's program the best one is, were both at the roofline."""
        assert self.baseline
        return max(self.baseline.bytes / self.bandwidth, self.flops / self.peak) / self.best


@dataclass(frozen=True, slots=True)
class Measured:
    """The programs of a kata on one chip."""

    programs: tuple[MeasuredProgram, ...]


class TrialVerdict(enum.Enum):
    """What a test says of a kernel."""

    PASSED = "passed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Trial:
    """What a learner's test said of one version of the kernel under test.

    `kernel` goes on from "a kernel that". `error` and `line` are of the exception with which it was
    rejected, and `calls` is how often the test called the kernel.
    """

    kernel: str
    right: bool
    verdict: TrialVerdict
    calls: int
    error: str = ""
    line: int = 0


LINE_LIMIT = 500  # characters of a line that are shown


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file: its name, and its content when it was read."""

    file: str
    content: bytes

    @property
    def lines(self) -> list[str]:
        return self.content.decode(errors="replace").splitlines()

    def place(self, number: int) -> SourceLine:
        """Line `number` (1-based)."""
        lines = self.lines
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return SourceLine(number, text[:LINE_LIMIT])


class Mode(enum.Enum):
    """How a kernel is run."""

    STRICT = "strict"
    INTERPRET = "interpret"
    COMPILED = "compiled"


class Stage(enum.Enum):
    """How far a case had come when something was raised."""

    IMPORT = "import"
    TRACE = "trace"
    RUN = "run"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Problem:
    """An exception raised by the learner's code, or by Pallas on its behalf."""

    stage: Stage
    kind: str  # the exception's class name
    message: str
    place: SourceLine | None = None
    todo: bool = False  # the stub's own NotImplementedError
    traceback: str = ""
    operation: Operation | None = None  # what Mosaic was lowering
    call: KernelCall | None = None  # the kernel that Mosaic was lowering
    within: SourceLine | None = None  # the region's line that led to `place`, which is given code


@dataclass(frozen=True, slots=True)
class Access:
    """What a core does to a part of a buffer, or a copy of its, in the interpreter's words."""

    kind: str  # "read" or "write"
    part: str
    by: str
    line: str  # "FILE:LINE:COLUMN (FUNCTION)", or "pallas_call" for a block that is moved

    def told(self, buffer: str) -> str:
        return f"{self.kind} of {buffer}[{self.part}] from {self.by}, {self.line}"


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses to one buffer, at least one of them a write, that nothing orders.

    `kernel` counts the kernels that have run before. As text it is what the interpreter says.
    """

    kernel: int
    buffer: str
    accesses: tuple[Access, Access]

    def __str__(self) -> str:
        accesses = (f"  {access.told(self.buffer)}" for access in self.accesses)
        return "\n".join(["RACE DETECTED", *accesses])


@dataclass(frozen=True, slots=True)
class LeftOver:
    """A semaphore that is not zero when its kernel ends. As text: what the interpreter says."""

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


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything observed of the learner's launch function on one case."""

    problem: Problem | None = None
    trace: Trace | None = None
    broken_annotation: str = ""  # what jaxtyping and beartype say about the annotated launch
    outputs: tuple[Array, ...] = ()
    complaints: tuple[str, ...] = ()  # what the interpreter printed instead of raising
    printed: str = ""
    trials: tuple[Trial, ...] = ()  # of a test, what it says of each kernel
    copy_faults: tuple[CopyFault, ...] = ()  # of copies started by hand, in the order of the run
    device_faults: tuple[DeviceFault, ...] = ()
    devices: int = 1  # that it ran on
    gpu_faults: tuple[GpuFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Clues:
    """What is looked up only once a result is wrong.

    `with_zeros` are the results when memory that nothing has written holds zeros, not NaN;
    `shares` what the spec makes of one block alone of one input; `padding` the inputs of the kernel
    whose padding alone makes NaN, None where that could not be tried.
    """

    walk: Walk | None = None
    with_zeros: tuple[Array, ...] = ()
    shares: tuple[Share, ...] = ()
    padding: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What the spec makes of input `name` with all but one block along `axis` set to zero."""

    name: str
    axis: int
    which: str  # "first" or "last"
    results: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What each element of a random result may be, float64 of the result's shape: `low` or `high`,
    and `chance` is how often it is `high`, from 0 to 1."""

    low: Array
    high: Array
    chance: Array


@dataclass(frozen=True, slots=True)
class Repeats:
    """The same launch, run again: with its steps in another order on one core, and with another
    seed, `changed` in words."""

    again: Observation | Accident
    other_seed: Observation | Accident
    changed: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The trusted side of one case: inputs, and what must come back.

    `expected` is float64 for floating results; `results` holds the dtypes and shapes that the spec
    returns. `contraction` is the longest sum (in terms) that stands behind one result element.
    `sways` is how far each expected result moves, at most, if the inputs change as float32 rounds.
    `outcomes` are those of each random result, None of one that is not; () where none is random.
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
    """The sandbox's process did not answer: it was stopped, or it died.

    `killed`: by a signal that no fault of its own sends, or nobody saw how it ended. Another time
    it may answer.
    """

    phrase: str
    message: str
    place: SourceLine | None = None
    printed: str = ""
    stuck: bool = False  # it was still running when it was stopped
    kept_waiting: bool = False  # and the machine may have kept it from answering in time
    crashed: bool = False  # a signal ended it
    last_words: str = ""  # what a native library that gave up said, in one line
    killed: bool = False


@dataclass(frozen=True, slots=True)
class OnGpu:
    """A launch on its way to the GPU called `chip`, as far as it came.

    `compiled` is a `pallascope.gpu.Compiled` as bytes, its kernels or why they are refused: only
    who judges it imports that package. b"" where a `problem` was raised before, or nothing compiles
    here: `not_compiled` says why. `lowered`: jax has done its part. `buffers` are what it allocates
    in shared memory, as texts with their bytes, the largest first, where it allocates too much.
    `program` is the `LoweredProgram` that jax made of it, as bytes; b"" for none.
    """

    chip: str
    problem: Problem | None = None
    compiled: bytes = b""
    not_compiled: str = ""
    lowered: bool = False
    buffers: tuple[tuple[str, int], ...] = ()
    program: bytes = b""
