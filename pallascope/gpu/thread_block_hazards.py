"""Simulates a block of GPU threads in several orders, and finds races, unless it can't follow them.

The threads of one block run in turns, in orders that may happen on a GPU; only a kernel's first and
last block are simulated. Each thread has a clock: its own events, those of other threads of which
it knows that they have happened, and the completed phases of barriers of which it knows. A wait
adds the clocks of all arrivals of its phase. So whether a read has ended before a write, or a copy
has arrived before a read, doesn't depend on the order of the turns. Copies into shared memory take
no time here, so a wait that never ends here ends on no GPU. A fault found here is certain; if a
thread can't be followed, none is reported.

The products of a Blackwell's tensor cores end in order, and arrive at a barrier: when the arrival's
phase has completed and a thread knows it, all products that began before it have ended.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend import core

from pallascope.gpu.operations import LookupTable, NotKnown
from pallascope.gpu.thread import Events, Thread
from pallascope.gpu.thread_events import Event, GpuEventKind, MemoryBox
from pallascope.kernels.calls import is_for_gpus
from pallascope.kernels.host_values import known_values
from pallascope.kernels.outside_kernels import OutsideReader
from pallascope.kernels.pallas_params import body, mesh
from pallascope.model import (
    GpuFault,
    GpuHazard,
    SourceFile,
    SourceLine,
)

Barrier = tuple[Any, ...]
#: By a thread's number, its last event that is known; by a barrier, the phases that have completed.
Clock = dict[Any, int]


@dataclass(frozen=True, slots=True)
class Product:
    """A product that reads `operands`, writes `into`, and began on this line."""

    operands: tuple[MemoryBox, ...]
    into: MemoryBox
    line: int


@dataclass(slots=True, eq=False)
class Read:
    """A read of memory by a thread, or by a unit that the thread has started on this line.

    `ended` is the thread's event at which it knew that the read had ended; None: not yet.
    """

    part: MemoryBox
    line: int
    thread: int
    hazard: GpuHazard
    ended: int | None = None

    def has_ended(self, clock: Clock) -> bool:
        return self.ended is not None and clock.get(self.thread, 0) >= self.ended


@dataclass(frozen=True, slots=True)
class Arriving:
    """A copy into memory by a thread, and the phase of the barrier that completes with it.

    `again`: not the first copy into that memory.
    """

    part: MemoryBox
    line: int
    barrier: Barrier
    phase: int
    thread: int
    again: bool


@dataclass(slots=True)
class Products:
    """The products of one block, from all threads."""

    _begun: list[Product] = field(default_factory=list)
    _told: dict[tuple[Barrier, int], int] = field(default_factory=dict)

    def begin(self, product: Product) -> None:
        self._begun.append(product)

    def arrive(self, barrier: Barrier, phase: int) -> None:
        """The products that have begun so far arrive in this phase of the barrier."""
        self._told[barrier, phase] = len(self._begun)

    def reading(self, part: MemoryBox, clock: Clock) -> int | None:
        """The line of a product that may still be reading a part; None if there is none."""
        left = self._left(clock)
        return next((one.line for one in left if _meet(one.operands, part)), None)

    def writing(self, part: MemoryBox, clock: Clock) -> int | None:
        """The line of a product that may still be writing a part; None if there is none."""
        return next((one.line for one in self._left(clock) if _meet((one.into,), part)), None)

    def _left(self, clock: Clock) -> Sequence[Product]:
        known = (n for (barrier, phase), n in self._told.items() if clock.get(barrier, 0) >= phase)
        return self._begun[max(known, default=0) :]


def _meet(parts: Sequence[MemoryBox], other: MemoryBox) -> bool:
    return any(part.surely_meets(other) for part in parts)


@dataclass(slots=True)
class _State:
    """The state of one thread: its uncommitted stores, and the operations that it started."""

    number: int
    clock: Clock = field(default_factory=dict)
    stored: list[tuple[MemoryBox, int]] = field(default_factory=list)
    loose: list[Read] = field(default_factory=list)
    leaving: deque[list[Read]] = field(default_factory=deque)
    products: deque[list[Read]] = field(default_factory=deque)
    loading: list[Read] = field(default_factory=list)
    waits: dict[tuple[Any, ...], int] = field(default_factory=dict)
    at: Event | None = None  # the wait that hasn't returned

    def learns(self, other: Clock) -> None:
        """Another clock's events are known from now on."""
        _merge(self.clock, other)

    def end(self, reads: Sequence[Read]) -> None:
        """The thread knows now that these reads have ended."""
        for read in reads:
            read.ended = self.clock[self.number]

    def keep(self, groups: deque[list[Read]], count: int) -> None:
        """At most the last `count` groups may be under way."""
        while len(groups) > count:
            self.end(groups.popleft())


def _merge(clock: Clock, other: Clock) -> None:
    for name, count in other.items():
        clock[name] = max(clock.get(name, 0), count)


class ThreadBlock:
    """The threads of a block and their shared state."""

    def __init__(self, source: SourceFile, after_copies: bool, after_arrivals: bool) -> None:
        at_once = dict.fromkeys(
            (GpuEventKind.COPY_IN, GpuEventKind.MMA, GpuEventKind.TELL), after_copies
        )
        self._at_once = {**at_once, GpuEventKind.ARRIVE: after_arrivals}
        self.faults: list[GpuFault] = []
        self._source = source
        self._states: list[_State] = []
        self._arrived: dict[tuple[Any, ...], int] = {}
        self._completed: dict[tuple[Any, ...], int] = {}
        self._phases: dict[tuple[Barrier, int], Clock] = {}
        self._reads: dict[tuple[Any, ...], list[Read]] = {}
        self._copies: dict[tuple[Any, ...], list[Arriving]] = {}
        self._products = Products()
        self._waits: dict[tuple[Any, ...], tuple[Event, Arriving]] = {}
        self._ahead: set[tuple[Any, ...]] = set()

    def run(self, threads: list[Events]) -> None:
        """Run all threads until each has ended or waits for ever. Raises NotKnown."""
        self._states = [_State(number) for number in range(len(threads))]
        ready = deque(range(len(threads)))
        while ready:
            number = ready.popleft()
            if self._goes_on(number, threads[number], ready):
                self._ends(number)
        stuck = [n for n, state in enumerate(self._states) if state.at is not None]
        if stuck:
            self._hangs(stuck)
        for key, (event, copy) in self._waits.items():
            if key not in self._ahead:
                self._fault(GpuHazard.NOTHING_AHEAD, copy.part, event.line, copy.line)

    def _goes_on(self, number: int, thread: Events, ready: deque[int]) -> bool:
        """Run one thread until another can go on or it waits; True if it ends."""
        state = self._states[number]
        if state.at is not None:
            if not self._is_over(state):
                return False
            self._returns(state)
        for event in thread:
            if event.does is GpuEventKind.WAIT:
                state.at = event
                self._laps(state, event)
                self._looks_ahead(state, event)
                if not self._is_over(state):
                    return False
                self._returns(state)
                continue
            state.clock[number] = state.clock.get(number, 0) + 1
            woken = self._happens(state, event)
            if not woken:
                continue
            if self._at_once[event.does]:
                ready.extendleft([*woken, number][::-1])
                return False
            ready.extend(woken)
        return True

    def _happens(self, state: _State, event: Event) -> list[int]:
        """Execute one event; returns the threads whose wait it ends."""
        match event.does:
            case GpuEventKind.STORE:
                self._written(state, event)
                state.stored += [(part, event.line) for part in event.parts]
            case GpuEventKind.COMMIT:
                state.stored.clear()
            case GpuEventKind.GET:
                state.end(self._read(state, event, GpuHazard.READ_BY_THREAD))
            case GpuEventKind.COPY_IN:
                self._written(state, event)
                assert event.barrier
                self._copied(state, event)
                return self._arrives(state, event.barrier)
            case GpuEventKind.COPY_OUT:
                self._committed(state, event, "copy_smem_to_gmem")
                state.loose += self._read(state, event, GpuHazard.LEAVING)
                if event.grouped:
                    self._group(state)
            case GpuEventKind.GROUP:
                self._group(state)
            case GpuEventKind.WAIT_OUT:
                state.keep(state.leaving, event.count)
            case GpuEventKind.WGMMA:
                self._committed(state, event, "wgmma")
                state.products.append(self._read(state, event, GpuHazard.READ_BY_WGMMA))
            case GpuEventKind.WAIT_WGMMA:
                state.keep(state.products, event.count)
            case GpuEventKind.MMA:
                self._committed(state, event, "tcgen05_mma")
                self._multiplied(state, event)
                if event.barrier:
                    return self._tells(state, event.barrier)
            case GpuEventKind.TELL:
                return self._tells(state, event.parts[0])
            case GpuEventKind.LOAD:
                self._loaded(state, event)
            case GpuEventKind.WAIT_LOAD:
                state.end(state.loading)
                state.loading.clear()
            case GpuEventKind.ARRIVE:
                return self._arrives(state, event.parts[0])
            case GpuEventKind.WAIT:
                pass
        return []

    def _multiplied(self, state: _State, event: Event) -> None:
        """A Blackwell's product begins; no thread may still be loading its accumulator."""
        assert event.into
        self._arrived_before(state, event, GpuHazard.READ_BY_MMA)
        if read := self._unended(state, event.into):
            self._fault(GpuHazard.STILL_LOADED, event.into, event.line, read.line)
        self._products.begin(Product(event.parts, event.into, event.line))

    def _loaded(self, state: _State, event: Event) -> None:
        for part in event.parts:
            read = Read(part, event.line, state.number, GpuHazard.STILL_LOADED)
            self._reads.setdefault(part.memory.key, []).append(read)
            state.loading.append(read)
            if (line := self._products.writing(part, state.clock)) is not None:
                self._fault(GpuHazard.NOT_MULTIPLIED, part, event.line, line)

    def _tells(self, state: _State, barrier: MemoryBox) -> list[int]:
        """Products arrive at a barrier. They end at once, which only waiting threads know."""
        key = _place(barrier)
        self._products.arrive(key, self._completed.get(key, 0) + 1)
        return self._arrives(state, barrier)

    def _group(self, state: _State) -> None:
        state.leaving.append(state.loose)
        state.loose = []

    def _committed(self, state: _State, event: Event, reader: str) -> None:
        """A unit reads memory; its thread must have committed its stores."""
        for part in event.parts:
            for stored, line in state.stored:
                if part.surely_meets(stored):
                    self._fault(GpuHazard.NO_COMMIT, stored, event.line, line, reader)
                    return

    def _read(self, state: _State, event: Event, hazard: GpuHazard) -> list[Read]:
        """Memory is read, which ends later; `hazard` is that of a write before."""
        self._arrived_before(state, event, hazard)
        reads = [Read(part, event.line, state.number, hazard) for part in event.parts]
        for read in reads:
            self._reads.setdefault(read.part.memory.key, []).append(read)
        return reads

    def _copied(self, state: _State, event: Event) -> None:
        """A copy into memory begins."""
        assert event.barrier
        barrier = _place(event.barrier)
        for part in event.parts:
            others = self._copies.get(part.memory.key, ())
            left = [copy for copy in others if not part.surely_meets(copy.part)]
            phase = self._completed.get(barrier, 0) + 1
            again = len(left) < len(others)
            left.append(Arriving(part, event.line, barrier, phase, state.number, again))
            self._copies[part.memory.key] = left

    def _arrived_before(self, state: _State, event: Event, hazard: GpuHazard) -> None:
        """Memory is read; the thread must know that the copies into it have arrived.

        If it knows an earlier phase, and the copy isn't the first one, the copy was too early.
        """
        for part in event.parts:
            for copy in self._copies.get(part.memory.key, ()):
                known = state.clock.get(copy.barrier, 0)
                if known >= copy.phase or not part.surely_meets(copy.part):
                    continue
                if copy.again and known:
                    own = copy.thread == state.number
                    self._fault(GpuHazard.TOO_EARLY if own else hazard, part, copy.line, event.line)
                else:
                    self._fault(GpuHazard.NOT_ARRIVED, part, event.line, copy.line)
                return

    def _written(self, state: _State, event: Event) -> None:
        """Memory is written; no thread or unit may still be reading it."""
        for part in event.parts:
            if (line := self._products.reading(part, state.clock)) is not None:
                self._fault(GpuHazard.READ_BY_MMA, part, event.line, line)
                return
            if read := self._unended(state, part):
                self._fault(read.hazard, part, event.line, read.line)
                return

    def _looks_ahead(self, state: _State, event: Event) -> None:
        """A wait for a copy into memory that is filled again: is another copy into it under way?"""
        barrier = _place(event.parts[0])
        phase = state.waits.get(barrier, 0) + 1
        for key, copies in self._copies.items():
            unknown = [c for c in copies if state.clock.get(c.barrier, 0) < c.phase]
            here = [c for c in unknown if (c.barrier, c.phase) == (barrier, phase)]
            if here and len({(c.barrier, c.phase) for c in unknown}) > 1:
                self._ahead.add(key)
            elif here and here[0].again:
                self._waits.setdefault(key, (event, here[0]))

    def _unended(self, state: _State, part: MemoryBox) -> Read | None:
        """A read of a part of which a thread doesn't know that it has ended. Forgets the others."""
        reads = self._reads.get(part.memory.key, [])
        found = next(
            (r for r in reads if part.surely_meets(r.part) and not r.has_ended(state.clock)), None
        )
        if reads and found is None:
            self._reads[part.memory.key] = [r for r in reads if not part.surely_meets(r.part)]
        return found

    def _ends(self, number: int) -> None:
        state = self._states[number]
        left = [*state.loose, *(one for group in state.leaving for one in group)]
        if left:
            self._fault(GpuHazard.NOT_DRAINED, left[-1].part, left[-1].line)

    # ---- barriers ----

    def _arrives(self, state: _State, barrier: MemoryBox) -> list[int]:
        key = _place(barrier)
        _merge(self._phases.setdefault((key, self._completed.get(key, 0) + 1), {}), state.clock)
        self._arrived[key] = self._arrived.get(key, 0) + 1
        if self._arrived[key] < barrier.memory.arrivals:
            return []
        self._arrived[key] = 0
        self._completed[key] = self._completed.get(key, 0) + 1
        waiting = enumerate(self._states)
        return [
            n
            for n, state in waiting
            if state.at and _place(state.at.parts[0]) == key and self._is_over(state)
        ]

    def _is_over(self, state: _State) -> bool:
        assert state.at
        key = _place(state.at.parts[0])
        return self._completed.get(key, 0) > state.waits.get(key, 0)

    def _laps(self, state: _State, event: Event) -> None:
        """A fault if a wait comes after its phase and the next one have completed."""
        key = _place(event.parts[0])
        if self._completed.get(key, 0) - state.waits.get(key, 0) > 1:
            self._fault(GpuHazard.LAPPED, event.parts[0], event.line)

    def _returns(self, state: _State) -> None:
        assert state.at
        key = _place(state.at.parts[0])
        phase = state.waits[key] = state.waits.get(key, 0) + 1
        state.learns(self._phases.get((key, phase), {}))
        state.learns({key: phase})
        state.at = None

    def _hangs(self, stuck: list[int]) -> None:
        # If some threads have arrived but too few, the count is wrong; if none has ever arrived, an
        # arrival is missing. The other waits follow from the first.
        first, *others = sorted(stuck, key=lambda n: (not self._had(n), self._has_completed(n)))
        event = self._states[first].at
        assert event
        barrier = event.parts[0]
        self.faults.append(
            GpuFault(
                GpuHazard.NEVER_ARRIVES,
                str(barrier),
                self._place(event.line),
                thread=first,
                arrived=self._had(first),
                needed=barrier.memory.arrivals,
                others=tuple(self._told(number) for number in others),
            )
        )

    def _had(self, number: int) -> int:
        """The arrivals since the last phase at the barrier on which a thread waits."""
        event = self._states[number].at
        return self._arrived.get(_place(event.parts[0]), 0) if event else 0

    def _has_completed(self, number: int) -> bool:
        event = self._states[number].at
        return bool(event and self._completed.get(_place(event.parts[0])))

    def _told(self, number: int) -> str:
        event = self._states[number].at
        assert event
        where = f" (line {event.line})" if event.line else ""
        return f"thread {number} on {event.parts[0]}{where}"

    # ---- faults ----

    def _fault(
        self, disorder: GpuHazard, part: MemoryBox, line: int, since: int = 0, reader: str = ""
    ) -> None:
        places = self._place(line), self._place(since) if since != line else None
        self.faults.append(GpuFault(disorder, str(part), *places, reader))

    def _place(self, line: int) -> SourceLine | None:
        return self._source.place(line) if line else None


def _place(barrier: MemoryBox) -> tuple[Any, ...]:
    """The barrier's index in its array; without an index, it is the array's only barrier."""
    index = tuple(start for start, _ in barrier.box) if barrier.box else ()
    return (barrier.memory.key, index or (0,))


#: The orders of threads, as (after a copy's arrival, after a thread's own): whether the threads
#: that it wakes run at once, or the one that has arrived goes on first.
_ORDERS = ((False, True), (True, True), (False, False))
#: The exceptions from equations of an unknown form.
_MOVED = (AttributeError, KeyError, TypeError, ValueError)


#: The first faults to report: the others may follow from them.
_RANK = {disorder: rank for rank, disorder in enumerate(GpuHazard)}


def ordering_hazards(
    closed: core.ClosedJaxpr, source: SourceFile, values: Sequence[Any] = ()
) -> tuple[GpuFault, ...]:
    """The faults of a launch's kernels, each once, in the order of `GpuHazard`.

    None for a kernel that can't be followed. `values` are the launch's inputs, if they are known:
    a kernel may depend on tables among them.
    """
    args = values if len(values) == len(closed.jaxpr.invars) else [None] * len(closed.jaxpr.invars)
    kernels = OutsideReader(closed, source.file).kernels
    found: dict[tuple[Any, ...], GpuFault] = {}
    for kernel, known in zip(kernels, known_values(closed, args), strict=True):
        if not is_for_gpus(kernel):
            continue
        tables = [None if numbers is None else LookupTable(numbers) for numbers in known]
        orders = itertools.product((False, True), _ORDERS)
        runs = [_of_block(kernel, source, last, order, tables) for last, order in orders]
        overlaps = not all(_has(faults, GpuHazard.NOTHING_AHEAD) for faults in runs)
        for fault in itertools.chain.from_iterable(runs):
            if overlaps and fault.hazard is GpuHazard.NOTHING_AHEAD:
                continue
            line = fault.line.line if fault.line else 0
            found.setdefault((fault.hazard, fault.ref.partition("[")[0], line), fault)
    return tuple(sorted(found.values(), key=lambda fault: _RANK[fault.hazard]))


def _has(faults: Sequence[GpuFault], hazard: GpuHazard) -> bool:
    return any(fault.hazard is hazard for fault in faults)


def _of_block(
    kernel: core.JaxprEqn,
    source: SourceFile,
    last: bool,
    order: tuple[bool, bool],
    tables: Sequence[LookupTable | None],
) -> list[GpuFault]:
    """The faults of the first or of the last block of the grid."""
    on: Any = mesh(kernel)
    if any(size > 1 for size in on.cluster):
        return []
    axes = {
        name: (size - 1 if last else 0) for name, size in zip(on.grid_names, on.grid, strict=True)
    }
    axes |= dict.fromkeys(on.cluster_names, 0)
    count = int(on.num_threads or 1)
    threads = []
    for number in range(count):
        own = {**axes, on.thread_name: number} if on.thread_name else axes
        threads.append(Thread(number, own, source.file))
    block = ThreadBlock(source, *order)
    given = [*tables, *[None] * (len(body(kernel).invars) - len(tables))]
    try:
        block.run([thread.events(body(kernel), given) for thread in threads])
    except (NotKnown, RecursionError, *_MOVED):
        return []
    return block.faults
