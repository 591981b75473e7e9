"""The values that every room of the grader shares. Imports nothing of ours.

All are frozen and built from builtins, enums and each other, so that `codec` can carry them to
another process (the sandbox, an xdist worker) or into a JSON file.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

MOST_STARS = 3


class Check(enum.Enum):
    """One rung of the ladder: one question asked of a kernel on a hidden case."""

    RUNS = "runs"
    CONTRACT = "contract"
    PALLAS_USED = "pallas_used"
    VALUES = "values"
    BLOCKS = "blocks"
    LOWERS = "lowers"
    COMPILES = "compiles"
    COST = "cost"

    @property
    def title(self) -> str:
        return self.value.replace("_", " ")


class State(enum.Enum):
    """The verdict on one hidden case, and on a kata (its worst case)."""

    TODO = "todo"
    FAILED = "failed"
    PASSED = "passed"


class Mode(enum.Enum):
    """How a kernel is run."""

    STRICT = "strict"
    INTERPRET = "interpret"
    COMPILED = "compiled"


@dataclass(frozen=True, slots=True)
class Device:
    """Where kernels run in this session, how, and why so."""

    backend: str  # JAX's name: "cpu", "gpu" or "tpu"
    mode: Mode
    why: str


@dataclass(frozen=True, slots=True)
class Case:
    """One hidden case: what was drawn from the answer key for one kata in one session.

    `sizes` holds dimensions and block sizes by name; `dtype` is what the kata's `Float` (or other
    open) annotations become; `seed` fixes the values of the arrays.
    """

    kata: str
    index: int
    session_seed: int
    seed: int
    sizes: dict[str, int]
    dtype: str

    def __str__(self) -> str:
        sizes = [f"{name}={size}" for name, size in self.sizes.items()]
        return ", ".join([*sizes, f"dtype={self.dtype}"])


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a check said no: a phrase for a table cell, and the whole explanation.

    `full` is an exception's whole traceback, for those who ask (-vv).
    """

    check: Check
    phrase: str
    message: str
    full: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a launch takes on one chip beside par: bytes from and to HBM, and cycles.

    None where the index maps, or the compiler's schedule, do not tell.
    """

    chip: str
    bytes: int | None
    par_bytes: int | None
    cycles: int | None
    par_cycles: int | None


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one kata for one hidden case. `stars` are 0 to 3.

    A kata may be passed with a finding, which then says what the last star takes. `unchecked` says
    why the TPU's compiler could not be asked. `blob` is git's id of the file's content, "" where
    that changed while it was graded.
    """

    kata: str
    case: int
    state: State
    stars: int
    finding: Finding | None = None
    drawn: str = ""  # the case in words
    seconds: float = 0.0
    printed: str = ""  # what the learner's code printed
    cost: Cost | None = None
    unchecked: str = ""
    blob: str = ""


# ---- what is observed of a kernel, in the sandbox ----


@dataclass(frozen=True, slots=True)
class Array:
    """An array's bytes, C order. `dtype` is JAX's name, such as "bfloat16".

    Without bytes for its elements, its contents are not known, and decide nothing.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array's dtype (JAX's name) and shape, without its contents."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the learner's file: 1-based number and text."""

    line: int
    text: str


class Stage(enum.Enum):
    """How far a case had come when something was raised."""

    IMPORT = "import"
    TRACE = "trace"
    RUN = "run"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a kernel, by JAX's name for the primitive.

    `operands` are its inputs, Refs by what they hold. `within` is the function of JAX's that it is
    part of, such as "median" for a sort; "" where the kernel's own lines call for it.
    """

    name: str
    operands: tuple[ArrayType, ...] = ()
    within: str = ""


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


class Role(enum.Enum):
    """What an operand of a kernel is to it."""

    PREFETCH = "scalar prefetch"
    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


class Touch(enum.Enum):
    """What a kernel does first to a Ref, in program order."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"
    GUARDED_WRITE = "guarded write"  # under a pl.when, so only on some grid steps


@dataclass(frozen=True, slots=True)
class Operand:
    """One Ref of a kernel. `block` has None for a squeezed dimension; sizes are in elements."""

    name: str
    role: Role
    array: ArrayType
    block: tuple[int | None, ...]
    space: str  # the memory space that the BlockSpec names; "default" where it names none
    moves: bool = False  # the index map returns something else than literal zeros
    axes: tuple[int, ...] = ()  # the grid dimensions that the index map looks at
    first: Touch = Touch.NOTHING
    buffers: int = 2  # copies of the block in VMEM, so that one is filled while another is used
    element: bool = False  # its index map counts elements, not blocks (pl.Element)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One `pallas_call` as traced. `grid` has None for a dimension known only at run time."""

    name: str
    grid: tuple[int | None, ...]
    operands: tuple[Operand, ...]
    parallel: tuple[int, ...] = ()  # the grid dimensions whose steps may run in any order
    callbacks: tuple[str, ...] = ()  # primitives in the body that leave the device

    def role(self, *roles: Role) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role in roles)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a launch function does, from its jaxpr: kernels, what stands around them, results."""

    calls: tuple[KernelCall, ...]
    outside: tuple[str, ...]  # primitives outside every pallas_call, in program order
    results: tuple[ArrayType, ...]
    from_kernel: tuple[bool, ...]  # per result: does it depend on a pallas_call?


@dataclass(frozen=True, slots=True)
class Attempt:
    """Everything observed of the learner's launch function on one case. Judged elsewhere."""

    problem: Problem | None = None
    trace: Trace | None = None
    broken_annotation: str = ""  # what jaxtyping and beartype say of the annotated launch
    outputs: tuple[Array, ...] = ()
    complaints: tuple[str, ...] = ()  # what the interpreter printed instead of raising
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """Which block of each output every grid step writes: [output][step][dimension]."""

    steps: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Clues:
    """What is looked up only once a result is wrong.

    `with_zeros` are the results when memory that nothing has written holds zeros, not NaN;
    `shares` what the spec makes of one block alone of one input.
    """

    walk: Walk | None = None
    with_zeros: tuple[Array, ...] = ()
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """What the spec makes of input `name` with all but one block along `axis` set to zero."""

    name: str
    axis: int
    which: str  # "first" or "last"
    results: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The trusted side of one case: inputs, and what must come back.

    `expected` is float64 for floating results; `results` holds the dtypes and shapes that the spec
    returns. `contraction` is the longest sum (in terms) that stands behind one result element.
    """

    names: tuple[str, ...]
    inputs: tuple[Array, ...]
    keywords: dict[str, int]
    expected: tuple[Array, ...]
    results: tuple[ArrayType, ...]
    annotations: tuple[str, ...]  # of the results, as the solution's launch declares them
    contraction: int


@dataclass(frozen=True, slots=True)
class Accident:
    """The sandbox's process did not answer: it was stopped, or it died."""

    phrase: str
    message: str
    place: Place | None = None
    printed: str = ""
    stuck: bool = False  # it was still running when it was stopped
    crashed: bool = False  # a signal ended it
