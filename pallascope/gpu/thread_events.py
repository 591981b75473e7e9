"""Events of a GPU thread on shared memory and barriers, and its scalars.

Whole numbers that a kernel computes for itself: where each thread is, which slot, which turn.

What a thread of a kernel for GPUs does to shared memory and barriers, as data, and where.
A thread is what Pallas calls one: a warpgroup of 128 CUDA threads.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core

Number = int | bool


def _quotient(a: int, b: int) -> int:
    """Towards zero, as XLA divides."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b)


_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _quotient,
    "rem": _remainder,
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "max": max,
    "min": min,
    "clamp": lambda low, a, high: max(low, min(a, high)),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "shift_left": operator.lshift,
    "shift_right_arithmetic": operator.rshift,
    "shift_right_logical": operator.rshift,
    "copy": lambda a: a,
    "copy_p": lambda a: a,
}


def number_of(value: object) -> Number | None:
    """A value of a trace as a number; None where it is none, or not whole."""
    if isinstance(value, (bool, int)):
        return value
    if getattr(value, "shape", None) != ():
        return None
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    item: Any = value
    if kind == "b":
        return bool(item)
    return int(item) if kind in "iu" and kind else None


def computed(eqn: core.JaxprEqn, operands: Sequence[Number | None]) -> Number | None:
    """The result of an equation without Refs; None where it is no whole number that is known."""
    aval: Any = eqn.outvars[0].aval
    kind = getattr(getattr(aval, "dtype", None), "kind", "")
    if getattr(aval, "shape", None) != () or kind not in ("i", "u", "b"):
        return None
    name = eqn.primitive.name
    if name == "select_n":
        return _selected(operands)
    if any(value is None for value in operands):
        return None
    if name == "not":
        (value,) = operands
        return (not value) if kind == "b" else None
    if name == "convert_element_type":
        (value,) = operands
        whole = int(value) if value is not None else 0
        return bool(whole) if kind == "b" else whole
    if (compute := _COMPUTED.get(name)) is None:
        return None
    try:
        result = compute(*operands)
    except (ArithmeticError, ValueError):
        return None
    return bool(result) if kind == "b" else int(result)


def _selected(operands: Sequence[Number | None]) -> Number | None:
    which, *cases = operands
    return None if which is None or not 0 <= which < len(cases) else cases[int(which)]


#: Of each axis, start and size. None: which elements is not known, or it is not a box.
Box = tuple[tuple[int, int], ...] | None


class Does(enum.Enum):
    """One step of a thread that matters to others, or to the units beside the threads."""

    STORE = "stores"
    COMMIT = "commits what it has stored"
    COPY_IN = "starts a copy into shared memory"
    COPY_OUT = "starts a copy out of shared memory"
    GROUP = "makes a group of the copies out"
    WAIT_OUT = "waits until so many groups are left"
    WGMMA = "starts a product of matrices"
    WAIT_WGMMA = "waits until so many products are left"
    MMA = "starts a product on a Blackwell, into tensor memory"
    TELL = "has all such products arrive at a barrier when they have ended"
    LOAD = "starts to load from tensor memory"
    WAIT_LOAD = "waits until it has loaded"
    ARRIVE = "arrives at a barrier"
    WAIT = "waits on a barrier"


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """One allocation: by `key`, the same for all threads that share it, and by its name.

    `arrivals` are those that complete a phase, of a barrier; 0 of all else.
    """

    key: tuple[Any, ...]
    name: str
    arrivals: int = 0


@dataclass(frozen=True, slots=True)
class MemoryBox:
    """A box of an allocation; the whole of it where `whole`."""

    memory: GpuMemory
    box: Box = None
    whole: bool = False

    def __str__(self) -> str:
        slot = self.box[0] if self.box and not self.whole else None
        return f"{self.memory.name}[{slot[0]}]" if slot and slot[1] == 1 else self.memory.name

    def surely_meets(self, other: MemoryBox) -> bool:
        """Whether both hold some element for certain."""
        if self.memory.key != other.memory.key:
            return False
        if self.whole or other.whole:
            return True
        if self.box is None or other.box is None or len(self.box) != len(other.box):
            return False
        return all(
            a < b + m and b < a + n for (a, n), (b, m) in zip(self.box, other.box, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Event:
    """What is done, to which parts, on which line of the learner's file (0: not known).

    `count` is of groups that may be left. `barrier` is the one that a copy or a product arrives at,
    `into` what a product is added to.
    """

    does: Does
    parts: tuple[MemoryBox, ...] = ()
    line: int = 0
    count: int = 0
    barrier: MemoryBox | None = None
    grouped: bool = True
    into: MemoryBox | None = None


def part_of(
    memory: GpuMemory, transforms: Sequence[Any], value: Callable[[Any], int | None]
) -> MemoryBox:
    """The part of an allocation that a Ref's transforms leave; `value` resolves what indexes it."""
    indexers = [each for each in transforms if hasattr(each, "indices")]
    if not indexers:
        return MemoryBox(memory, whole=True)
    full = tuple(indexers[0].shape)
    box = [(0, size) for size in full]
    left = list(range(len(full)))  # the axes that no index has taken away
    for indexer in indexers:
        if len(indexer.indices) != len(left):
            return MemoryBox(memory)
        kept = []
        for axis, index in zip(left, indexer.indices, strict=True):
            sliced = hasattr(index, "size")
            start = value(index.start if sliced else index)
            size = index.size if sliced else 1
            strided = sliced and getattr(index, "stride", 1) != 1
            if start is None or type(size) is not int or strided:
                return MemoryBox(memory)
            box[axis] = (box[axis][0] + start, size)
            if sliced:
                kept.append(axis)
        left = kept
    return MemoryBox(
        memory, tuple(box), all(part == (0, size) for part, size in zip(box, full, strict=True))
    )


def resolved(env: dict[core.Var, Any], atom: Any) -> Any:
    """What an atom of a jaxpr stands for: a number, a Memory, or None."""
    if isinstance(atom, core.Var):
        return env.get(atom)
    return number_of(getattr(atom, "val", atom))
