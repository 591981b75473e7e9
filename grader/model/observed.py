"""What workers report about a launch: exceptions, results, clues. The checks judge it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.model.copied import CopyFault
from grader.model.devices import DeviceFault
from grader.model.gpu import GpuFault
from grader.model.kernel import Array, ArrayType, KernelCall, Operation, Trace, Walk
from grader.model.measured import Trial
from grader.model.places import Place

LINE_LIMIT = 500  # characters of a line that are shown


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file: its name, and its content when it was read."""

    file: str
    content: bytes

    @property
    def lines(self) -> list[str]:
        return self.content.decode(errors="replace").splitlines()

    def place(self, number: int) -> Place:
        """Line `number` (1-based)."""
        lines = self.lines
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return Place(number, text[:LINE_LIMIT])


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
    place: Place | None = None
    todo: bool = False  # the stub's own NotImplementedError
    traceback: str = ""
    operation: Operation | None = None  # what Mosaic was lowering
    call: KernelCall | None = None  # the kernel that Mosaic was lowering
    within: Place | None = None  # the region's line that led to `place`, which is given code


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
    not_run: str = ""  # why an interpreter can't run a launch for a GPU


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
    place: Place | None = None
    printed: str = ""
    stuck: bool = False  # it was still running when it was stopped
    kept_waiting: bool = False  # and the machine may have kept it from answering in time
    crashed: bool = False  # a signal ended it
    last_words: str = ""  # what a native library that gave up said, in one line
    killed: bool = False


@dataclass(frozen=True, slots=True)
class OnGpu:
    """A launch on its way to the GPU called `chip`, as far as it came.

    `compiled` is a `grader.gpu.Compiled` as bytes, its kernels or why they are refused: only who
    judges it imports that package. b"" where a `problem` was raised before, or nothing compiles
    here: `not_compiled` says why. `lowered`: jax has done its part. `buffers` are what it allocates
    in shared memory, as texts with their bytes, the largest first, where it allocates too much.
    `program` is the `grader.gpu.programs.Program` that jax made of it, as bytes; b"" for none.
    """

    chip: str
    problem: Problem | None = None
    compiled: bytes = b""
    not_compiled: str = ""
    lowered: bool = False
    buffers: tuple[tuple[str, int], ...] = ()
    program: bytes = b""
