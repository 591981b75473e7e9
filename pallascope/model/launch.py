"""A launch as data: arrays, kernels, operations, routes and bytes over links between chips.

`pallascope.kernels` builds these values from a launch's jaxpr; all other folders read them.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

#: The axes of a mesh, outermost first, with their sizes. () for a launch on a single device.
Axes = tuple[tuple[str, int], ...]


def mesh_size(axes: Axes) -> int:
    """The number of devices in a mesh."""
    return math.prod(size for _, size in axes)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file: 1-based number and text. `file` is empty for the judged file."""

    line: int
    text: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Array:
    """An array's bytes, C order. `dtype` is JAX's name, such as "bfloat16".

    `data` is empty if the contents are unknown because nothing depends on them.
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
class Operation:
    """One operation of a kernel, by JAX's name for the primitive.

    `operands` are its inputs; a Ref counts as the array that it refers to. `within` is the JAX
    function that contains it, such as "median" for a sort; "" if the kernel itself calls it.
    `line` is the line in the judged file, 0 if unknown. Each element of a matrix product is a
    sum of `terms` products. `turns` is the trip count of the surrounding loops. `axes` are the mesh
    axes of an operation between devices.
    """

    name: str
    operands: tuple[ArrayType, ...] = ()
    within: str = ""
    results: tuple[ArrayType, ...] = ()
    line: int = 0
    terms: int = 1
    turns: int = 1
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A note about a launch for its author, which doesn't change the verdict.

    `line` is the line in the judged file, 0 if unknown.
    """

    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """An array constant in a trace. `line` of the judged file uses it first; 0 if unknown."""

    array: ArrayType
    size: int  # in bytes
    line: int = 0


class Role(enum.Enum):
    """The role of a kernel's operand."""

    PREFETCH = "scalar prefetch"
    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


class FirstAccess(enum.Enum):
    """A kernel's first access to a Ref, in program order."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"
    GUARDED_WRITE = "guarded write"  # under a pl.when, so only on some grid steps


class Lint(enum.Enum):
    """A pattern in a kernel's body that is slow on a TPU, or error-prone."""

    NARROW_PRODUCT = "a matrix product with a dimension below 128"
    PRECISE_PRODUCT = "a matrix product with its own precision"
    ROUNDED_PRODUCT = "a matrix product of float32 at the default precision"
    LANE_REDUCTION = "a reduction along the lanes"
    TURNED_COLUMN = "the result of a reduction along the lanes, turned into a row"
    TRANSPOSE = "a transpose"
    NEAR_MASK = "a choice of a large negative number that isn't a limit of its dtype"


@dataclass(frozen=True, slots=True)
class SubWordInt:
    """An integer dtype of fewer than 32 bits. `line` computes in it first; 0 if unknown."""

    dtype: str
    line: int


@dataclass(frozen=True, slots=True)
class Operand:
    """One Ref of a kernel. `block` has None for a squeezed dimension; sizes are in elements."""

    name: str
    role: Role
    array: ArrayType
    block: tuple[int | None, ...]
    space: str  # the memory space in the BlockSpec; "default" if it names none
    moves: bool = False  # the index map returns something other than literal zeros
    axes: tuple[int, ...] = ()  # the grid dimensions that the index map uses
    first: FirstAccess = FirstAccess.NOTHING
    buffers: int = 2  # copies of the block in VMEM, so that one is filled while another is used
    element: bool = False  # its index map counts elements, not blocks (pl.Element)
    unawaited: bool = False  # the body starts copies from or to it and never waits for one
    copied: bool = False  # the body starts copies from or to it
    kinds: tuple[str, ...] = ()  # Pallas' name for each dimension's kind; () if all by size
    aliased: bool = False  # an output that begins with an input's contents, or such an input


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One kernel as traced. `grid` has None for a dimension known only at run time.

    The grid of a `pl.kernel` is its mesh, which asks for `cores` cores; its operands have no
    blocks. `unknown` is the reason if such a kernel can't be judged, otherwise "". `vmem_limit` is
    the launch's limit in bytes, 0 if it sets none. `scoped` are the VMEM buffers from `run_scoped`
    that the kernel copies to or from, as many as exist at the same time.
    """

    name: str
    grid: tuple[int | None, ...]
    operands: tuple[Operand, ...]
    parallel: tuple[int, ...] = ()  # the grid dimensions whose steps may run in any order
    callbacks: tuple[str, ...] = ()  # primitives in the body that leave the device
    cores: int = 1
    unknown: str = ""
    foreign: str = ""  # the file of a part of the body, if it isn't the judged one
    line: int = 0  # the line of the judged file that launches it; 0 if unknown
    lints: tuple[Lint, ...] = ()
    sub_word_ints: tuple[
        SubWordInt, ...
    ] = ()  # integers that the body computes with; () if not requested
    vmem_limit: int = 0
    scoped: tuple[ArrayType, ...] = ()
    operations: int = 0  # in the body as traced, each once; 0 if not requested

    def role(self, *roles: Role) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role in roles)


@dataclass(frozen=True, slots=True)
class RunCount:
    """The number of times that a launch runs a kernel; `times` is 0 if XLA removes it.

    `untold`: the trip count of a surrounding loop is known only at run time, and `times` counts one
    iteration of it. `conditional`: it is in a branch of `lax.cond`, and `times` assumes that the
    branch is taken each time.
    """

    times: int = 1
    untold: bool = False
    conditional: bool = False


class CopyReason(enum.Enum):
    """The reason why XLA copies an operand that is aliased with another one."""

    KEPT = "an output takes the place of an input that the caller keeps"
    READ_LATER = "an output takes the place of an input that is read again"
    ELSEWHERE = "an output has another place than the donated array that it replaces"
    EXCHANGED = "outputs lie in each other's places"


@dataclass(frozen=True, slots=True)
class XlaCopy:
    """XLA's copy of a whole operand, by position, before or after a kernel."""

    operand: int
    reason: CopyReason


@dataclass(frozen=True, slots=True, order=True)
class OperationPlace:
    """A place in the judged file with an operation, and the `numbers` that are its operands."""

    line: int
    column: int
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A launch function's kernels, surrounding operations and results, read from its jaxpr.

    `outside` are the operations outside of all kernels, in program order.
    """

    calls: tuple[KernelCall, ...]
    outside: tuple[Operation, ...]
    results: tuple[ArrayType, ...]
    from_kernel: tuple[bool, ...]  # per result: does it depend on a kernel?
    constants: tuple[Constant, ...] = ()
    from_spec: int = 0  # the spec's line from which a part of it was traced; 0 if none
    notes: tuple[Note, ...] = ()
    unused: tuple[int, ...] = ()  # the launch's inputs that nothing depends on, by position
    #: For each result, the kernel and its output that it is, unchanged or reshaped, both by number;
    #: None if none.
    kernel_outputs: tuple[tuple[int, int] | None, ...] = ()
    #: A line that draws random bits from the chip's generator, 0 if unknown; None if no line does.
    draws: int | None = None
    #: The places of the operations in and around kernels, and of the calls that lead to them, in
    #: order. Operations that only give an array another shape or dtype don't count.
    places: tuple[OperationPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputBlocks:
    """The block of each output that each grid step writes: [output][step][dimension]."""

    steps: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[tuple[int, ...], ...], ...]


#: For each dimension of an array, the mesh axes that cut it, outermost first.
Cut = tuple[tuple[str, ...], ...]

#: The name of the communication if two `shard_map`s shard an array in different ways.
RESHARDING = "resharding"

_ONCE = RunCount()


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation, by its name in jax.lax, or RESHARDING.

    It is over `axes` of the mesh, and `devices` devices take part. `arrays` are one device's
    operands. In each of the `runs` a device sends `sent` bytes over its links, each over `hops`
    links on average. `line` is the line in the judged file, 0 if unknown.
    """

    name: str
    axes: tuple[str, ...]
    devices: int
    arrays: tuple[ArrayType, ...]
    sent: int
    runs: RunCount = _ONCE
    line: int = 0
    hops: float = 1.0

    @property
    def bytes(self) -> int | None:
        """The bytes that one device sends in all runs; None if the number of runs is unknown."""
        return None if self.runs.untold else self.sent * self.runs.times

    @property
    def link_bytes(self) -> int | None:
        """The load on the links: bytes times hops; None if unknown."""
        return None if self.bytes is None else round(self.bytes * self.hops)


def collective_link_bytes(collectives: tuple[Collective, ...]) -> int | None:
    """The load on the links of all of these: bytes times hops; None if unknown."""
    sizes = [collective.link_bytes for collective in collectives]
    return None if None in sizes else sum(filter(None, sizes))


def collective_sent_bytes(collectives: tuple[Collective, ...]) -> int | None:
    """The bytes that one device sends in all of these; None if unknown."""
    sizes = [collective.bytes for collective in collectives]
    return None if None in sizes else sum(filter(None, sizes))


@dataclass(frozen=True, slots=True)
class Route:
    """Bytes that one chip sends along the same path, which has `steps` along each mesh axis.

    Negative steps lead to lower device numbers. If two paths have the same length, each takes half
    of the bytes.
    """

    steps: tuple[tuple[str, int], ...]
    bytes: int

    @property
    def hops(self) -> int:
        """The number of links on the path."""
        return sum(abs(number) for _, number in self.steps)


def link_loads(routes: Sequence[Route]) -> dict[tuple[str, int], int]:
    """The bytes on each link out of a chip, if every chip sends along these routes.

    A link is an axis of the mesh, and 1 or -1: it leads to the next or the previous chip there.
    """
    loads = Counter[tuple[str, int]]()
    for route in routes:
        for name, number in route.steps:
            loads[name, 1 if number > 0 else -1] += route.bytes * abs(number)
    return dict(loads)


def busiest_link_bytes(routes: Sequence[Route]) -> int:
    """The bytes on the busiest link, if every chip sends along these routes."""
    return max(link_loads(routes).values(), default=0)


def total_link_bytes(routes: Sequence[Route]) -> int:
    """The load on all links: bytes times hops."""
    return sum(route.bytes * route.hops for route in routes)


class ActionKind(enum.Enum):
    """The kind of an action in a `CommTimeline`."""

    SENDS = "sends"
    COPIES = "copies"
    SIGNALS = "signals"
    GETS = "gets"
    WAITS = "waits"
    MULTIPLIES = "multiplies"


@dataclass(frozen=True, slots=True)
class DeviceAction:
    """One action of a chip, by itself or with the chip `to`, which is -1 if there is none.

    `what` is the part of a Ref, `into` its target, and `semaphore` the one that counts it. `size`
    is in bytes; for a signal, or a wait for one, its count; for matrix products, the number of
    operations.
    """

    act: ActionKind
    what: str = ""
    into: str = ""
    to: int = -1
    semaphore: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class CommTimeline:
    """The actions of each chip of a mesh while a kernel runs. `chips` are mesh coordinates.

    `moments` are logical steps, in order, and not times: a copy or signal that starts in one moment
    arrives in the next, and in each moment a chip does everything that doesn't depend on a later
    one. `whole`: nothing was left out. `stuck`: at the end, chips wait for something that never
    comes.
    """

    chips: tuple[tuple[int, ...], ...]
    moments: tuple[tuple[tuple[DeviceAction, ...], ...], ...]
    whole: bool = True
    stuck: bool = False
