"""What one kernel's devices do to each other, and what must come before what.

Devices run at their own speed, and the interpreter shows one way in which it may go. Here is said
what is so in every way: a wait needs a signal if it would not end without it. To find that out, all
devices are let go as far as they come while one thing never happens. What does not come to pass
then comes after it, always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from grader.kernels.flights import Part
from grader.model import Place

#: A core of a device.
Core = tuple[int, int]
#: A semaphore of a device: the device, and the semaphore's number.
Sem = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Area:
    """A part of a buffer of the core `of`; what is in HBM belongs to core 0."""

    of: Core
    part: Part

    def overlaps(self, other: Area) -> bool:
        return self.of == other.of and self.part.overlaps(other.part)


@dataclass(frozen=True, slots=True)
class Signal:
    """A semaphore is raised, here or on another device."""

    core: Core
    at: int
    to: Sem
    count: int
    line: Place | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A core waits until a semaphore of its device holds `count`, and takes that off."""

    core: Core
    at: int
    on: Sem
    count: int
    line: Place | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy is started. `left` is raised once it has been read, `came` once all has arrived."""

    core: Core
    at: int
    source: Area
    target: Area
    came: Sem
    left: Sem | None
    size: int
    line: Place | None = None

    @property
    def remote(self) -> bool:
        return self.target.of[0] != self.core[0] or self.left is not None


Event = Signal | Wait | Copy


@dataclass(frozen=True, slots=True)
class Touch:
    """A core reads or writes, after `at` of its events."""

    core: Core
    at: int
    area: Area
    writes: bool
    line: Place | None = None


#: How many of its events each core comes to.
Reached = Mapping[Core, int]


@dataclass(slots=True)
class Exchange:
    """Everything that happens in one kernel; `complete` once all devices have ended."""

    events: dict[Core, list[Event]] = field(default_factory=dict)
    touches: dict[Touch, None] = field(default_factory=dict)
    complete: bool = False
    _known: dict[object, Reached] = field(default_factory=dict)

    def at(self, core: Core) -> int:
        """How many events a core has had."""
        return len(self.events.setdefault(core, []))

    def add(self, event: Event) -> None:
        self.events[event.core].append(event)

    def copies(self) -> list[Copy]:
        """All of them, in an order that does not depend on how fast devices were."""
        return [
            event
            for core in sorted(self.events)
            for event in self.events[core]
            if isinstance(event, Copy)
        ]

    def turn(self, event: Event | Touch) -> int:
        """How often its core had started a copy on the same line by then, and once more."""
        own = self.events[event.core][: event.at]
        return 1 + sum(isinstance(one, Copy) and one.line == event.line for one in own)

    @property
    def spent(self) -> int:
        """How many events have been gone through so far."""
        return len(self._known) * sum(map(len, self.events.values()))

    def without_core(self, core: Core, at: int) -> Reached:
        """How far all come where a core stops after so many of its events."""
        return self._reached((core, at), {core: at})

    def without_device(self, device: int) -> Reached:
        """How far all come where a device never begins."""
        return self._reached(device, {core: 0 for core in self.events if core[0] == device})

    def without_reading(self, copy: Copy) -> Reached:
        """How far all come where a copy's source is never read."""
        return self._reached(("read", copy.core, copy.at), {}, copy, copy)

    def without_arrival(self, copy: Copy) -> Reached:
        """How far all come where a copy never arrives."""
        return self._reached(("came", copy.core, copy.at), {}, None, copy)

    def _reached(
        self,
        key: object,
        stop: Mapping[Core, int],
        unread: Copy | None = None,
        missing: Copy | None = None,
    ) -> Reached:
        if key not in self._known:
            self._known[key] = _let_go(self.events, stop, unread, missing)
        return self._known[key]


def _let_go(
    events: Mapping[Core, list[Event]],
    stop: Mapping[Core, int],
    unread: Copy | None,
    missing: Copy | None,
) -> Reached:
    counts = Counter[Sem]()
    at = dict.fromkeys(events, 0)
    moved = True
    while moved:
        moved = False
        for core, own in events.items():
            end = stop.get(core, len(own))
            while at[core] < end and _happens(own[at[core]], counts, unread, missing):
                at[core] += 1
                moved = True
    return at


def _happens(event: Event, counts: Counter[Sem], unread: Copy | None, missing: Copy | None) -> bool:
    """Whether an event comes to pass with these semaphores, which it changes."""
    match event:
        case Wait():
            if counts[event.on] < event.count:
                return False
            counts[event.on] -= event.count
        case Signal():
            counts[event.to] += event.count
        case Copy():
            if event.left and event is not unread:
                counts[event.left] += event.size
            if event is not missing:
                counts[event.came] += event.size
    return True
