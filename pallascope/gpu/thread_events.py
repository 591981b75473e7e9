"""Events of a GPU thread on shared memory and barriers, as data.

A thread is what Pallas calls one: a warpgroup of 128 CUDA threads.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core


def is_whole(var: core.Var) -> bool:
    """Whether a variable is a scalar of integers or booleans."""
    aval: Any = var.aval
    kind = getattr(getattr(aval, "dtype", None), "kind", "")
    return getattr(aval, "shape", None) == () and kind in ("i", "u", "b")


def number_of(value: object) -> int | bool | None:
    """A value in a trace as a number; None if it isn't a whole number."""
    if isinstance(value, (bool, int)):
        return value
    if getattr(value, "shape", None) != ():
        return None
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    item: Any = value
    if kind == "b":
        return bool(item)
    return int(item) if kind in ("i", "u") else None


#: The start and size along each axis. None: the elements are unknown, or not a box.
Box = tuple[tuple[int, int], ...] | None


class GpuEventKind(enum.Enum):
    """One step of a thread that matters to other threads, or to the units."""

    STORE = "stores"
    COMMIT = "commits its stores"
    GET = "reads into registers"
    COPY_IN = "starts a copy into shared memory"
    COPY_OUT = "starts a copy out of shared memory"
    GROUP = "makes a group of the copies out"
    WAIT_OUT = "waits until this many groups are left"
    WGMMA = "starts a product of matrices"
    WAIT_WGMMA = "waits until this many products are left"
    MMA = "starts a product on a Blackwell, into tensor memory"
    TELL = "makes all such products arrive at a barrier when they have ended"
    LOAD = "starts to load from tensor memory"
    WAIT_LOAD = "waits until its loads have ended"
    ARRIVE = "arrives at a barrier"
    WAIT = "waits on a barrier"


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """One allocation: its `key` is the same for all threads that share it.

    `arrivals` is the number that completes a barrier's phase; 0 for other memory.
    """

    key: tuple[Any, ...]
    name: str
    arrivals: int = 0


@dataclass(frozen=True, slots=True)
class MemoryBox:
    """A box of an allocation, or all of it if `whole`."""

    memory: GpuMemory
    box: Box = None
    whole: bool = False

    def __str__(self) -> str:
        slot = self.box[0] if self.box and not self.whole else None
        return f"{self.memory.name}[{slot[0]}]" if slot and slot[1] == 1 else self.memory.name

    def surely_meets(self, other: MemoryBox) -> bool:
        """Whether both certainly have an element in common."""
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
    """An operation, its parts of memory, and its line in the judged file (0 if unknown).

    `count` is the number of groups that may remain. `barrier` is the one at which a copy or a
    product arrives, `into` a product's accumulator.
    """

    does: GpuEventKind
    parts: tuple[MemoryBox, ...] = ()
    line: int = 0
    count: int = 0
    barrier: MemoryBox | None = None
    grouped: bool = True
    into: MemoryBox | None = None


def part_of(
    memory: GpuMemory, transforms: Sequence[Any], value: Callable[[Any], int | None]
) -> MemoryBox:
    """The part of an allocation after a Ref's transforms; `value` resolves their indices."""
    indexers = [each for each in transforms if hasattr(each, "indices")]
    if not indexers:
        return MemoryBox(memory, whole=True)
    full = tuple(indexers[0].shape)
    box = [(0, size) for size in full]
    left = list(range(len(full)))  # the axes that no index has removed
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
    """The value of an atom of a jaxpr: a number, a Memory, or None."""
    if isinstance(atom, core.Var):
        return env.get(atom)
    return number_of(getattr(atom, "val", atom))
