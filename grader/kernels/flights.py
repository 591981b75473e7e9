"""A copy on its way, the parts of buffers that it goes between, and what can go wrong with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from grader.model import Hazard

#: Start, end and step along each dimension of a buffer.
Span = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a buffer of this `shape`."""

    buffer: int
    span: Span
    shape: tuple[int, ...]

    def overlaps(self, other: Part) -> bool:
        pairs = zip(self.span, other.span, strict=True)
        return self.buffer == other.buffer and all(_meet(one, two) for one, two in pairs)

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(*one) for one in self.span)

    @property
    def outside(self) -> bool:
        """Whether some of it lies beyond the buffer's ends."""
        pairs = zip(self.span, self.shape, strict=True)
        return any(start < 0 or stop > size for (start, stop, _), size in pairs)

    @property
    def elements(self) -> int:
        return math.prod(len(range(*one)) for one in self.span)


def _meet(one: tuple[int, int, int], two: tuple[int, int, int]) -> bool:
    if max(one[0], two[0]) >= min(one[1], two[1]):
        return False
    return one[2] != two[2] or (one[0] - two[0]) % one[2] == 0


def span_of(within: tuple[Any, ...], shape: tuple[int, ...]) -> Span:
    """A range of the interpreter's as start, end and step along each dimension."""
    found = []
    for axis, size in enumerate(shape):
        one = within[axis] if axis < len(within) else slice(0, size)
        if isinstance(one, slice):
            start = 0 if one.start is None else int(one.start)
            stop = size if one.stop is None else int(one.stop)
            found.append((start, stop, int(one.step or 1)))
        else:
            found.append((int(one), int(one) + 1, 1))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is done: a line of the learner's file (0: of nobody's), the grid step, and
    how often the core has done this before on the line, plus one."""

    line: int
    step: tuple[int, ...] = ()
    turn: int = 1


@dataclass(slots=True, eq=False)
class Flight:
    """A copy, from its start on."""

    source: Part
    target: Part
    semaphore: int
    size: int
    start: Moment
    waits: int = 0  # that came on its semaphore since
    replaces: bool = False  # what had arrived, and nothing had read


@dataclass(slots=True)
class Fault:
    """What has gone wrong with some copy; the flights go on changing until the kernel ends."""

    hazard: Hazard
    moment: Moment
    part: Part | None = None
    flight: Flight | None = None
    another: Flight | None = None
    sharing: int = 0
    semaphore: int | None = None
    size: int = 0
    coming: int = 0
    elsewhere: tuple[Flight, ...] = ()
    number: int = 0
    started: int = 0
    last_wait: tuple[int, Moment] | None = None
