"""Races between devices: the happens-before order of their events.

Devices run at their own speed, and the interpreter shows only one possible order. This module finds
what is true in every order: a wait needs a signal if it would not end without it. To find out, it
lets all devices run as far as they can while one event never happens. Events that don't happen then
always come after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pallascope.kernels.dma_hazards import BufferPart
from pallascope.kernels.refs import RefNames
from pallascope.model import (
    Axes,
    DeviceFault,
    DeviceHazard,
    SourceLine,
    mesh_size,
)

#: A core of a device.
Core = tuple[int, int]
#: A semaphore of a device: the device, and the semaphore's number.
Sem = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Area:
    """A part of a buffer of the core `of`; HBM belongs to core 0."""

    of: Core
    part: BufferPart

    def overlaps(self, other: Area) -> bool:
        return self.of == other.of and self.part.overlaps(other.part)


@dataclass(frozen=True, slots=True)
class Signal:
    """A semaphore is signalled, here or on another device."""

    core: Core
    at: int
    to: Sem
    count: int
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A core waits until a semaphore of its device has `count`, and subtracts it."""

    core: Core
    at: int
    on: Sem
    count: int
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class DeviceCopy:
    """A copy starts. It signals `left` once it has been read, `came` once all has arrived."""

    core: Core
    at: int
    source: Area
    target: Area
    came: Sem
    left: Sem | None
    size: int
    line: SourceLine | None = None

    @property
    def remote(self) -> bool:
        return self.target.of[0] != self.core[0] or self.left is not None


Event = Signal | Wait | DeviceCopy


@dataclass(frozen=True, slots=True)
class DeviceAccess:
    """A core reads or writes, after `at` of its events."""

    core: Core
    at: int
    area: Area
    writes: bool
    line: SourceLine | None = None


#: The number of events that each core reaches.
Reached = Mapping[Core, int]


@dataclass(slots=True)
class DeviceEventLog:
    """All events of one kernel; `complete` once all devices have ended."""

    events: dict[Core, list[Event]] = field(default_factory=dict)
    touches: dict[DeviceAccess, None] = field(default_factory=dict)
    complete: bool = False
    _known: dict[object, Reached] = field(default_factory=dict)

    def at(self, core: Core) -> int:
        """The number of a core's events so far."""
        return len(self.events.setdefault(core, []))

    def add(self, event: Event) -> None:
        self.events[event.core].append(event)

    def copies(self) -> list[DeviceCopy]:
        """All copies, in an order that doesn't depend on the devices' speed."""
        return [
            event
            for core in sorted(self.events)
            for event in self.events[core]
            if isinstance(event, DeviceCopy)
        ]

    def turn(self, event: Event | DeviceAccess) -> int:
        """The number of copies that its core had started on the same line by then, plus one."""
        own = self.events[event.core][: event.at]
        return 1 + sum(isinstance(one, DeviceCopy) and one.line == event.line for one in own)

    @property
    def spent(self) -> int:
        """The number of events processed so far."""
        return len(self._known) * sum(map(len, self.events.values()))

    def without_core(self, core: Core, at: int) -> Reached:
        """How far all cores get if a core stops after this many of its events."""
        return self._reached((core, at), {core: at})

    def without_device(self, device: int) -> Reached:
        """How far all cores get if a device never begins."""
        return self._reached(device, {core: 0 for core in self.events if core[0] == device})

    def without_reading(self, copy: DeviceCopy) -> Reached:
        """How far all cores get if a copy's source is never read."""
        return self._reached(("read", copy.core, copy.at), {}, copy, copy)

    def without_arrival(self, copy: DeviceCopy) -> Reached:
        """How far all cores get if a copy never arrives."""
        return self._reached(("came", copy.core, copy.at), {}, None, copy)

    def _reached(
        self,
        key: object,
        stop: Mapping[Core, int],
        unread: DeviceCopy | None = None,
        missing: DeviceCopy | None = None,
    ) -> Reached:
        if key not in self._known:
            self._known[key] = _let_go(self.events, stop, unread, missing)
        return self._known[key]


def _let_go(
    events: Mapping[Core, list[Event]],
    stop: Mapping[Core, int],
    unread: DeviceCopy | None,
    missing: DeviceCopy | None,
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


def _happens(
    event: Event, counts: Counter[Sem], unread: DeviceCopy | None, missing: DeviceCopy | None
) -> bool:
    """Whether an event happens with these semaphores, which it changes."""
    match event:
        case Wait():
            if counts[event.on] < event.count:
                return False
            counts[event.on] -= event.count
        case Signal():
            counts[event.to] += event.count
        case DeviceCopy():
            if event.left and event is not unread:
                counts[event.left] += event.size
            if event is not missing:
                counts[event.came] += event.size
    return True


#: The devices run once for each pair in question; more pairs would take too long.
MOST_EFFORT = 3_000_000


@dataclass(frozen=True, slots=True)
class HappensBeforeFault:
    """A fault. Fields that are None or empty don't apply.

    `copy` goes between devices, and `other` is a second copy or an access. `why` has details of an
    area's credit, or of a barrier: see `device_messages`.
    """

    hazard: DeviceHazard
    copy: DeviceCopy | Signal
    other: DeviceCopy | DeviceAccess | None = None
    sem: Sem | None = None
    area: Area | None = None
    count: int = 0
    why: str = ""
    hint: Signal | Wait | None = None


def unbegun(exchange: DeviceEventLog, first_semaphore: int) -> Iterator[HappensBeforeFault]:
    """Copies and signals to a device that may not have begun. Barriers have small numbers."""
    for device in sorted({core[0] for core in exchange.events}):
        reached = exchange.without_device(device)
        for core in sorted(exchange.events):
            for event in exchange.events[core][: reached[core]]:
                if core[0] == device or not _reaches(event, device, first_semaphore):
                    continue
                assert isinstance(event, DeviceCopy | Signal)
                why, hint = _barrier(exchange, event, device, first_semaphore)
                yield HappensBeforeFault(DeviceHazard.NO_BARRIER, event, why=why, hint=hint)


def _reaches(event: object, device: int, first_semaphore: int) -> bool:
    match event:
        case DeviceCopy():
            return event.target.of[0] == device
        case Signal():
            return event.to[0] == device and event.to[1] >= first_semaphore
    return False


def _barrier(
    exchange: DeviceEventLog, event: DeviceCopy | Signal, device: int, first_semaphore: int
) -> tuple[str, Signal | Wait | None]:
    """The reason why a device may not have begun: its signals, and the counts of its waits."""
    me = event.core[0]
    signals = [
        one
        for core in sorted(exchange.events)
        for one in exchange.events[core]
        if isinstance(one, Signal) and one.to == (me, one.to[1]) and one.to[1] < first_semaphore
    ]
    waits = [
        one
        for one in exchange.events[event.core][: event.at]
        if isinstance(one, Wait) and one.on[1] < first_semaphore
    ]
    if not signals:
        return "nobody signals", None
    senders = sorted({one.core[0] for one in signals})
    if not waits:
        return "no wait", signals[0]
    if device not in senders:
        return "signals of " + " ".join(map(str, senders)), signals[0]
    count, coming = sum(one.count for one in waits), sum(one.count for one in signals)
    return f"waits for {count} of {coming}", waits[-1]


def left_over(exchange: DeviceEventLog, first_semaphore: int) -> Iterator[HappensBeforeFault]:
    """Semaphores of copies between devices, and of signals, that aren't zero at the end."""
    if not exchange.complete:
        return
    raised, taken = Counter[Sem](), Counter[Sem]()
    by: dict[Sem, DeviceCopy | Signal] = {}
    for core in sorted(exchange.events):
        for event in exchange.events[core]:
            match event:
                case Wait():
                    taken[event.on] += event.count
                case Signal():
                    raised[event.to] += event.count
                    by[event.to] = event
                case DeviceCopy():
                    for sem in (event.came, event.left):
                        if sem:
                            raised[sem] += event.size
                            by[sem] = event
    for sem in sorted(by):
        if raised[sem] <= taken[sem]:
            continue
        never = sem not in taken and isinstance(by[sem], DeviceCopy)
        hazard = DeviceHazard.NEVER_AWAITED if never else DeviceHazard.LEFT_OVER
        yield HappensBeforeFault(hazard, by[sem], sem=sem, count=raised[sem] - taken[sem])


def unordered(exchange: DeviceEventLog, first_semaphore: int) -> Iterator[HappensBeforeFault]:
    """Unordered accesses to memory that a copy between devices writes or reads."""
    copies = exchange.copies()
    for copy in copies:
        if not copy.remote:
            continue
        if exchange.spent > MOST_EFFORT:
            return
        for touch in exchange.touches:
            yield from _touched(exchange, copy, touch, first_semaphore)
        for other in copies:
            if other is not copy:
                yield from _met(exchange, copy, other, first_semaphore)


def _touched(
    exchange: DeviceEventLog, copy: DeviceCopy, touch: DeviceAccess, first: int
) -> Iterator[HappensBeforeFault]:
    if copy.target.overlaps(touch.area):
        if exchange.without_arrival(copy)[touch.core] < touch.at:
            return
        if _before(exchange.without_core(touch.core, touch.at), copy):
            return
        yield _against_arrival(exchange, copy, touch, touch.area, first)
    if touch.writes and copy.source.overlaps(touch.area):
        if exchange.without_reading(copy)[touch.core] < touch.at:
            return
        if not _before(exchange.without_core(touch.core, touch.at), copy):
            yield HappensBeforeFault(
                DeviceHazard.STILL_SENT, copy, touch, copy.left or copy.came, copy.source
            )


def _met(
    exchange: DeviceEventLog, copy: DeviceCopy, other: DeviceCopy, first: int
) -> Iterator[HappensBeforeFault]:
    if copy.target.overlaps(other.source):
        after = _before(exchange.without_arrival(copy), other)
        if not after and not _before(exchange.without_reading(other), copy):
            yield _against_arrival(exchange, copy, other, other.source, first)
    twice = not other.remote or (copy.core, copy.at) < (other.core, other.at)
    if twice and copy.target.overlaps(other.target):
        after = _before(exchange.without_arrival(copy), other)
        if not after and not _before(exchange.without_arrival(other), copy):
            own = "" if other.remote else "own"
            yield HappensBeforeFault(
                DeviceHazard.BOTH_WRITE, copy, other, copy.came, copy.target, why=own
            )
    if not other.remote and copy.source.overlaps(other.target):
        after = _before(exchange.without_reading(copy), other)
        if not after and not _before(exchange.without_arrival(other), copy):
            if other.core == copy.core and other.at < copy.at:
                yield HappensBeforeFault(DeviceHazard.EARLY, other, copy, other.came, copy.source)
            else:
                yield HappensBeforeFault(
                    DeviceHazard.STILL_SENT, copy, other, copy.left or copy.came, copy.source
                )


def _before(reached: Reached, copy: DeviceCopy) -> bool:
    """Whether the left-out event precedes a copy: the copy doesn't start without it."""
    return reached[copy.core] <= copy.at


def _against_arrival(
    exchange: DeviceEventLog,
    copy: DeviceCopy,
    use: DeviceCopy | DeviceAccess,
    area: Area,
    first: int,
) -> HappensBeforeFault:
    """A copy's data may not have arrived when it is used, or may overwrite data in use.

    It is meant to have arrived if as many bytes have been waited for as its sender had sent by
    then. Otherwise the use is of an earlier copy's data, if there was one.
    """
    own = [one for one in exchange.copies() if one.core == copy.core and one.at <= copy.at]
    through = sum(one.size for one in own if one.came == copy.came)
    waits = [
        one
        for one in exchange.events[use.core][: use.at]
        if isinstance(one, Wait) and one.on == copy.came
    ]
    if waits and sum(one.count for one in waits) >= through:
        raising = [one for one in exchange.copies() if copy.came in (one.came, one.left)]
        return HappensBeforeFault(
            DeviceHazard.SHARED, copy, use, copy.came, area, len(raising), hint=waits[-1]
        )  # fmt: skip
    if any(one.at < copy.at and one.target.overlaps(copy.target) for one in own):
        why, hint = _credit(exchange, copy, use, first)
        return HappensBeforeFault(
            DeviceHazard.IN_USE, copy, use, copy.came, area, why=why, hint=hint
        )
    return HappensBeforeFault(DeviceHazard.EARLY, copy, use, copy.came, area)


def _credit(
    exchange: DeviceEventLog, copy: DeviceCopy, other: DeviceCopy | DeviceAccess, first: int
) -> tuple[str, Signal | Wait | None]:
    """The error in the credit that the copy's sender should have been given."""
    reader, writer = other.core, copy.core[0]
    given = [
        one
        for one in exchange.events[reader]
        if isinstance(one, Signal) and one.to[1] >= first
    ]  # fmt: skip
    to_writer = [one for one in given if one.to[0] == writer]
    if not given:
        return "none", None
    if not to_writer:
        return f"to {given[0].to[0]}", given[0]
    if all(one.at < other.at for one in to_writer):
        return "early", to_writer[-1]
    if not any(
        isinstance(one, Wait) and one.on == to_writer[0].to
        for one in exchange.events[copy.core][: copy.at]
    ):
        return "not waited for", to_writer[0]
    return "too few", to_writer[0]


def fault_of(
    wrong: HappensBeforeFault,
    exchange: DeviceEventLog,
    named: Callable[[int], str],
    names: RefNames,
    mesh: Axes,
) -> DeviceFault:
    """A fault as data; `named` maps a semaphore to its name in the kernel."""
    copy, other = wrong.copy, wrong.other
    there = copy.target.of[0] if isinstance(copy, DeviceCopy) else copy.to[0]
    device = copy.core[0]
    if wrong.hazard in (DeviceHazard.NEVER_AWAITED, DeviceHazard.LEFT_OVER) and wrong.sem:
        device, there = wrong.sem[0], device
    return DeviceFault(
        wrong.hazard,
        device,
        there,
        mesh_size(mesh),
        semaphore=named(wrong.sem[1]) if wrong.sem else "",
        count=wrong.count,
        line=copy.line,
        part=names.part(wrong.area.part) if wrong.area else "",
        use=other.line if other else None,
        why=wrong.why,
        hint=wrong.hint.line if wrong.hint else None,
        turn=exchange.turn(copy),
        use_turn=exchange.turn(other) if isinstance(other, DeviceCopy) else 0,
        remote=not isinstance(copy, DeviceCopy) or copy.remote,
        mesh=mesh,
    )


def only_axis(exchange: DeviceEventLog, mesh: Axes) -> str:
    """The axis along which all copies go, in a mesh of several axes; otherwise ""."""
    along = set[str]()
    for copy in exchange.copies():
        here, there = (_within(mesh, device) for device in (copy.core[0], copy.target.of[0]))
        along |= {name for name, _ in mesh if here[name] != there[name]}
    return along.pop() if len(mesh) > 1 and len(along) == 1 else ""


def _within(mesh: Axes, device: int) -> dict[str, int]:
    """A device's number along each axis."""
    found: dict[str, int] = {}
    for name, size in reversed(mesh):
        found[name], device = device % size, device // size
    return found
