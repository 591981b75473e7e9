"""A launch as data: arrays, kernels, operations, and what goes to other chips.

The mesh of devices that a launch is for: named axes, and how many devices lie along each.

A line of a learner's file.

A launch as data: arrays, the kernels that it holds, the operations around them.

What devices move between each other outside of kernels: collectives, and arrays laid anew.

What a kernel sends over the links between chips, as data.

What the chips of a mesh do with each other while a kernel runs, moment by moment, as data.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

#: In order, outermost first. Without axes, a launch is for a single device.
Axes = tuple[tuple[str, int], ...]


def devices_of(axes: Axes) -> int:
    """How many devices a mesh has."""
    return math.prod(size for _, size in axes)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the learner's file: 1-based number and text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Array:
    """An array's bytes, C order. `dtype` is JAX's name, such as "bfloat16".

    An array without bytes is one whose contents are not known, because nothing depends on them.
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

    `operands` are its inputs; a Ref counts as the array that it refers to. `within` is the function
    of JAX's that it is part of, such as "median" for a sort; "" where the kernel itself calls it.
    `line` is that of the learner's file; 0 where it is not known. `terms` is how many products each
    element of a matrix product adds up, and `turns` how often the loops around it run it. `axes`
    are those of a mesh that an operation between devices goes over.
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
    """What a learner should know of a launch, and what changes nothing about its verdict.

    `line` is that of the learner's file; 0 where none is known.
    """

    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """An array whose contents a trace holds. `line` of the learner's file first uses it, or 0."""

    array: ArrayType
    size: int  # in bytes
    line: int = 0


class Role(enum.Enum):
    """What a kernel uses an operand for."""

    PREFETCH = "scalar prefetch"
    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


class FirstAccess(enum.Enum):
    """What a kernel does first to a Ref, in program order."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"
    GUARDED_WRITE = "guarded write"  # under a pl.when, so only on some grid steps


class Habit(enum.Enum):
    """What a kernel's body does somewhere, and what is slow on a TPU, or near to being wrong."""

    NARROW_PRODUCT = "a matrix product with a dimension below 128"
    PRECISE_PRODUCT = "a matrix product with a precision of its own"
    ROUNDED_PRODUCT = "a matrix product of float32 at the default precision"
    LANE_REDUCTION = "a reduction along the lanes"
    TURNED_COLUMN = "the result of one, turned into a row"
    TRANSPOSE = "a transpose"
    NEAR_MASK = "a choice of a negative number that is large, but no limit of its dtype"


@dataclass(frozen=True, slots=True)
class Narrow:
    """A dtype of fewer than 32 bits, and the learner's line that first computes in it, or 0."""

    dtype: str
    line: int


@dataclass(frozen=True, slots=True)
class Operand:
    """One Ref of a kernel. `block` has None for a squeezed dimension; sizes are in elements."""

    name: str
    role: Role
    array: ArrayType
    block: tuple[int | None, ...]
    space: str  # the memory space that the BlockSpec names; "default" where it names none
    moves: bool = False  # the index map returns something other than literal zeros
    axes: tuple[int, ...] = ()  # the grid dimensions that the index map looks at
    first: FirstAccess = FirstAccess.NOTHING
    buffers: int = 2  # copies of the block in VMEM, so that one is filled while another is used
    element: bool = False  # its index map counts elements, not blocks (pl.Element)
    unawaited: bool = False  # the body starts copies from or to it and never waits for one
    copied: bool = False  # the body starts copies from or to it
    kinds: tuple[str, ...] = ()  # Pallas' names of how each dimension is cut; () if all by size
    aliased: bool = False  # one array with another: an output begins as what the input holds


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One kernel as traced. `grid` has None for a dimension known only at run time.

    That of a `pl.kernel` are the axes of its mesh, which asks for so many `cores`; its operands
    have no blocks. `unknown` says why the grader cannot judge such a kernel; "" where it can.
    `vmem_limit` is what it may take of VMEM, in bytes; 0 where its launch sets no limit. `scoped`
    are the buffers in VMEM of its `run_scoped`s that it copies to or from, as many as exist at the
    same time.
    """

    name: str
    grid: tuple[int | None, ...]
    operands: tuple[Operand, ...]
    parallel: tuple[int, ...] = ()  # the grid dimensions whose steps may run in any order
    callbacks: tuple[str, ...] = ()  # primitives in the body that leave the device
    cores: int = 1
    unknown: str = ""
    foreign: str = ""  # the file, not the learner's, in which a part of the body is written
    line: int = 0  # the learner's line that launches it; 0 where it is not known
    habits: tuple[Habit, ...] = ()
    narrow: tuple[Narrow, ...] = ()  # integers that the body computes with; () if nobody asked
    vmem_limit: int = 0
    scoped: tuple[ArrayType, ...] = ()

    def role(self, *roles: Role) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role in roles)


@dataclass(frozen=True, slots=True)
class RunCount:
    """How often a launch runs a kernel: `times` is 0 where XLA removes it.

    `untold`: a loop around it has a number of turns that is known only at run time, and `times`
    counts one turn of it. `conditional`: it stands in a branch of `lax.cond`, and counts as if that
    were taken each time.
    """

    times: int = 1
    untold: bool = False
    conditional: bool = False


class CopyReason(enum.Enum):
    """Why XLA copies an operand of a kernel that another one is to take the place of."""

    KEPT = "an output takes the place of an input that the caller keeps"
    READ_LATER = "an output takes the place of an input that is read again"
    ELSEWHERE = "an output lies elsewhere than the donated array that it replaces"
    EXCHANGED = "outputs lie in each other's places"


@dataclass(frozen=True, slots=True)
class XlaCopy:
    """A copy that XLA makes around a kernel, of the whole array of the operand at this position."""

    operand: int
    reason: CopyReason


@dataclass(frozen=True, slots=True)
class Trace:
    """What a launch function does, from its jaxpr: kernels, operations around them, results.

    `outside` are the operations outside of every kernel, in program order.
    """

    calls: tuple[KernelCall, ...]
    outside: tuple[Operation, ...]
    results: tuple[ArrayType, ...]
    from_kernel: tuple[bool, ...]  # per result: does it depend on a kernel?
    constants: tuple[Constant, ...] = ()
    from_spec: int = 0  # the spec's line from which a part of it was traced; 0 where none was
    notes: tuple[Note, ...] = ()
    unused: tuple[int, ...] = ()  # the launch's inputs that nothing depends on, by position
    #: Per result, which output of the last kernel it is, unchanged or reshaped; None: none.
    held: tuple[int | None, ...] = ()
    #: A line that draws random bits from the chip's generator, 0 if unknown; None: nothing does.
    draws: int | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """Which block of each output every grid step writes: [output][step][dimension]."""

    steps: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[tuple[int, ...], ...], ...]


#: What stands for an array that two `shard_map`s cut in different ways.
RESHARDING = "resharding"

_ONCE = RunCount()


@dataclass(frozen=True, slots=True)
class Collective:
    """One operation of devices with each other, by what jax.lax calls it, or RESHARDING.

    `axes` of the mesh are those that it goes over, `devices` how many take part together. `arrays`
    are what one device puts in; `sent` are the bytes that one device sends over its links in one of
    the `runs`, and `hops` over how many links each of these passes, on average. `line` is that of
    the learner's file; 0 where it is not known.
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
        """What one device sends in all runs; None where nobody can tell how many there are."""
        return None if self.runs.untold else self.sent * self.runs.times

    @property
    def carried_bytes(self) -> int | None:
        """What links carry of that: bytes times hops. None where nobody can tell."""
        return None if self.bytes is None else round(self.bytes * self.hops)


def carried_by(collectives: tuple[Collective, ...]) -> int | None:
    """What links carry for all of these together, in bytes; None where nobody can tell."""
    sizes = [one.carried_bytes for one in collectives]
    return None if None in sizes else sum(filter(None, sizes))


def sent_by(collectives: tuple[Collective, ...]) -> int | None:
    """What one device sends in all of these together, in bytes; None where nobody can tell."""
    sizes = [one.bytes for one in collectives]
    return None if None in sizes else sum(filter(None, sizes))


@dataclass(frozen=True, slots=True)
class Route:
    """Bytes that one chip sends the same way: so many `steps` along the axes of the mesh.

    Of the axes that it goes along, each with its steps; those below zero lead to lower numbers.
    What has two ways of the same length goes both ways, in equal parts.
    """

    steps: tuple[tuple[str, int], ...]
    bytes: int

    @property
    def hops(self) -> int:
        """How many links it passes over."""
        return sum(abs(number) for _, number in self.steps)


def busiest(routes: Sequence[Route]) -> int:
    """What the busiest link carries, in bytes, where every chip sends the same ways as this one."""
    count = Counter[tuple[str, bool]]()
    for route in routes:
        for name, number in route.steps:
            count[name, number > 0] += route.bytes * abs(number)
    return max(count.values(), default=0)


def carried(routes: Sequence[Route]) -> int:
    """What links carry of all of these: bytes times hops."""
    return sum(route.bytes * route.hops for route in routes)


class Act(enum.Enum):
    """What a chip does."""

    SENDS = "sends"
    COPIES = "copies"
    SIGNALS = "signals"
    GETS = "gets"
    WAITS = "waits"
    MULTIPLIES = "multiplies"


@dataclass(frozen=True, slots=True)
class Deed:
    """One chip does something: with `what`, to the chip `to` or to itself, by a semaphore.

    `what` is a Ref's part, and `into` where it goes. `size` is in bytes, of a signal or a wait for
    one its count, and of products the number of operations. `to` is -1 where there is no other.
    """

    act: Act
    what: str = ""
    into: str = ""
    to: int = -1
    semaphore: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class SideBySide:
    """What each of `chips`, their numbers along the axes of a mesh, does at each moment.

    A copy or signal that starts at one moment is there at the next. So a moment is no time: chips
    do at one moment whatever waits for nothing that comes later. `whole`: it is not cut short.
    `stuck`: at the end, chips wait for what never comes.
    """

    chips: tuple[tuple[int, ...], ...]
    moments: tuple[tuple[tuple[Deed, ...], ...], ...]
    whole: bool = True
    stuck: bool = False
