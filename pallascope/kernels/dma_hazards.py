"""Outstanding DMAs of one core, and accesses that come before they end.

A DMA semaphore counts bytes. Copies that share one may end in any order, so none of them is known
to have ended before all of them have been waited for. The findings don't depend on when the
interpreter executes a copy, but only on the order in which the core starts, waits, reads and
writes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pallascope.model import DmaHazard, SourceLine

#: Start, end and step along each dimension of a buffer.
Span = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class BufferPart:
    """A part of a buffer of this `shape`."""

    buffer: int
    span: Span
    shape: tuple[int, ...]

    def overlaps(self, other: BufferPart) -> bool:
        pairs = zip(self.span, other.span, strict=True)
        return self.buffer == other.buffer and all(_meet(one, two) for one, two in pairs)

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(*one) for one in self.span)

    @property
    def outside(self) -> bool:
        """Whether some of it is beyond the buffer's ends."""
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
    """A range of the interpreter as start, end and step along each dimension."""
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
    """The time of an event: its line (None if it isn't in the judged files), its grid step, and the
    number of the core's earlier events on the line, plus one."""

    line: SourceLine | None
    step: tuple[int, ...] = ()
    turn: int = 1


@dataclass(slots=True, eq=False)
class OutstandingDma:
    """A copy from its start on."""

    source: BufferPart
    target: BufferPart
    semaphore: int
    size: int
    start: Moment
    waits: int = 0  # on its semaphore since its start
    replaces: bool = False  # data that had arrived, and that nothing had read


@dataclass(slots=True)
class Fault:
    """A fault of a copy; its flights change until the kernel ends."""

    hazard: DmaHazard
    moment: Moment
    part: BufferPart | None = None
    flight: OutstandingDma | None = None
    another: OutstandingDma | None = None
    sharing: int = 0
    semaphore: int | None = None
    size: int = 0
    coming: int = 0
    elsewhere: tuple[OutstandingDma, ...] = ()
    number: int = 0
    started: int = 0
    last_wait: tuple[int, Moment] | None = None


MOST_FAULTS = 8


@dataclass(slots=True)
class _Counter:
    """The counts on one semaphore since the last time that all of it had been waited for."""

    flights: list[OutstandingDma] = field(default_factory=list)
    started: int = 0  # bytes
    waited: int = 0
    ever: list[OutstandingDma] = field(default_factory=list)


class WaitsForever(RuntimeError):
    """A wait for bytes that no copy in flight brings."""


class OutstandingDmas:
    """One core's copies in flight, and the first MOST_FAULTS `faults` so far."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.hints: list[Fault] = []
        self.judged = True
        self._counters: dict[int, _Counter] = defaultdict(_Counter)
        self._arriving: dict[int, list[OutstandingDma]] = defaultdict(list)
        self._leaving: dict[int, list[OutstandingDma]] = defaultdict(list)
        self._unread: dict[int, list[BufferPart]] = defaultdict(list)
        self._written: dict[int, np.ndarray] = {}
        self._filled: set[int] = set()
        self._last_wait: tuple[int, Moment, frozenset[int]] | None = None

    def leave_alone(self) -> None:
        """Stop judging this core: other cores take part in its waits."""
        self.judged = False
        self.faults.clear()
        self.hints.clear()

    def holds_garbage(self, buffer: int, shape: tuple[int, ...]) -> None:
        """A buffer is allocated, and nothing has been written to it."""
        self._written[buffer] = np.zeros(shape, bool)

    def start(self, flight: OutstandingDma) -> None:
        """A copy starts."""
        source, target = flight.source, flight.target
        beyond = next((part for part in (source, target) if part.outside), None)
        if beyond and flight.start.line:  # otherwise the blocks of a JAX pipeline are wrong
            self._note(Fault(DmaHazard.OUTSIDE, flight.start, beyond, flight))
            return
        if early := self._meets(self._arriving, source):
            self._found(DmaHazard.SENT_EARLY, flight.start, source, early, flight)
        if other := self._meets(self._arriving, target):
            self._found(DmaHazard.TWO_AT_ONCE, flight.start, target, other, flight)
        if other := self._meets(self._leaving, target):
            self._found(DmaHazard.OVERWRITES_LEAVING, flight.start, target, other, flight)
        self._taken(source, flight.start)
        flight.replaces = any(part.overlaps(target) for part in self._unread[target.buffer])
        self._forget_unread(target)
        self._filled.add(target.buffer)
        counter = self._counters[flight.semaphore]
        counter.flights.append(flight)
        counter.ever.append(flight)
        counter.started += flight.size
        self._arriving[target.buffer].append(flight)
        self._leaving[source.buffer].append(flight)
        self._settle(counter)

    def wait(self, semaphore: int, size: int, moment: Moment) -> None:
        """The core waits for this many bytes. Raises WaitsForever."""
        counter = self._counters[semaphore]
        for flight in counter.flights:
            flight.waits += 1
        coming = counter.started - counter.waited
        if size > coming and self.judged:
            hazard = DmaHazard.TOO_MANY_BYTES if coming else DmaHazard.NO_START
            others = [c.flights for s, c in self._counters.items() if s != semaphore]
            self._note(
                Fault(
                    hazard,
                    moment,
                    flight=counter.flights[-1] if coming else None,
                    semaphore=semaphore,
                    size=size,
                    coming=coming,
                    elsewhere=tuple(flight for flights in others for flight in flights),
                    started=len(counter.ever),
                )
            )
            raise WaitsForever(f"waits for {size} bytes, and {coming} are in flight")
        counter.waited += size
        targets = frozenset(flight.target.buffer for flight in counter.flights)
        self._last_wait = semaphore, moment, targets
        self._settle(counter)

    def read(self, part: BufferPart, moment: Moment) -> None:
        """The core reads."""
        if early := self._meets(self._arriving, part):
            self._found(DmaHazard.READ_EARLY, moment, part, early)
        self._taken(part, moment)

    def write(self, part: BufferPart, moment: Moment) -> None:
        """The core writes."""
        if other := self._meets(self._arriving, part):
            self._found(DmaHazard.OVERWRITES_ARRIVING, moment, part, other)
        if other := self._meets(self._leaving, part):
            self._found(DmaHazard.OVERWRITES_LEAVING, moment, part, other)
        self._forget_unread(part)
        self._fill(part)

    def end(self, of: int | None = None) -> None:
        """The kernel ends, or a buffer is freed: finds copies that weren't waited for."""
        for semaphore, counter in self._counters.items():
            left = [f for f in counter.flights if of in (None, f.source.buffer, f.target.buffer)]
            if not left:
                continue
            coming = counter.started - counter.waited
            number = _last_of(counter.flights, coming)
            last = counter.flights[-max(number, 1)]
            self._note(
                Fault(
                    DmaHazard.NEVER_AWAITED if number else DmaHazard.BYTES_LEFT,
                    last.start,
                    last.target,
                    last,
                    sharing=len(counter.flights) - 1,
                    semaphore=semaphore,
                    coming=coming,
                    size=counter.waited,
                    number=self._count(last.start.line, pending=True),
                    started=self._count(last.start.line, pending=False),
                )
            )
            counter.waited = counter.started
            self._settle(counter)

    def _count(self, line: SourceLine | None, *, pending: bool) -> int:
        """The number of copies that a line has started, or has in flight."""
        of = (c.flights if pending else c.ever for c in self._counters.values())
        return sum(flight.start.line == line for flights in of for flight in flights)

    def seen(self) -> Iterable[Fault]:
        """The faults; reads without any copy there come last."""
        hints = (h for h in self.hints if h.part and h.part.buffer in self._filled)
        return (*self.faults, *hints)

    def _meets(
        self, table: dict[int, list[OutstandingDma]], part: BufferPart
    ) -> OutstandingDma | None:
        for flight in table.get(part.buffer, ()):
            end = flight.target if table is self._arriving else flight.source
            if end.overlaps(part):
                return flight
        return None

    def _found(
        self,
        hazard: DmaHazard,
        moment: Moment,
        part: BufferPart,
        flight: OutstandingDma,
        another: OutstandingDma | None = None,
    ) -> None:
        counter = self._counters[flight.semaphore]
        fault = Fault(
            hazard,
            moment,
            part,
            flight,
            another,
            sharing=len(counter.flights) - 1,
            semaphore=flight.semaphore,
            size=counter.waited,
            coming=counter.started - counter.waited,
            last_wait=self._wait_for_another(flight),
        )
        self._note(fault)

    def _wait_for_another(self, flight: OutstandingDma) -> tuple[int, Moment] | None:
        """The last wait, if it was for a copy into the same buffer, but on another semaphore."""
        if self._last_wait is None or self._last_wait[0] == flight.semaphore:
            return None
        semaphore, moment, targets = self._last_wait
        return (semaphore, moment) if flight.target.buffer in targets else None

    def _note(self, fault: Fault) -> None:
        if self.judged and len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)

    def _settle(self, counter: _Counter) -> None:
        """If all started bytes have been waited for, all copies have ended."""
        if counter.waited != counter.started:
            return
        for flight in counter.flights:
            self._arriving[flight.target.buffer].remove(flight)
            self._leaving[flight.source.buffer].remove(flight)
            self._unread[flight.target.buffer].append(flight.target)
            self._fill(flight.target)
        counter.flights.clear()
        counter.started = counter.waited = 0

    def _taken(self, part: BufferPart, moment: Moment) -> None:
        """A part is read: a fault if nothing has been written there."""
        self._forget_unread(part)
        written = self._written.get(part.buffer)
        if written is None or self._meets(self._arriving, part):
            return
        if self.judged and len(self.hints) < MOST_FAULTS and not written[part.slices].all():
            self.hints.append(Fault(DmaHazard.NOTHING_THERE, moment, part))

    def _fill(self, part: BufferPart) -> None:
        if (written := self._written.get(part.buffer)) is not None:
            written[part.slices] = True

    def _forget_unread(self, part: BufferPart) -> None:
        unread = self._unread.get(part.buffer)
        if unread:
            self._unread[part.buffer] = [one for one in unread if not one.overlaps(part)]


def _last_of(flights: list[OutstandingDma], size: int) -> int:
    """The number of the last flights that bring exactly this many bytes; 0 if none do."""
    for number, flight in enumerate(reversed(flights), 1):
        size -= flight.size
        if size <= 0:
            return number if size == 0 else 0
    return 0
