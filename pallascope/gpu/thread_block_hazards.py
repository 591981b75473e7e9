"""Simulates a block of GPU threads in several orders, and finds races, unless it can't follow them.

The threads of one block run in turns, in orders that may happen on a GPU; only a kernel's first and
last block are simulated. Copies and products are in flight until their thread has waited for them:
if memory is written here while a unit may still read it, some run on a GPU does the same. Copies
into shared memory take no time here, so a wait that never ends here ends on no GPU. A fault found
here is certain; if a thread can't be followed, none is reported.

The products of a Blackwell's tensor cores end in order, and arrive at a barrier: when the arrival's
phase has completed and a thread has waited for it, all products that began before it have ended.
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


@dataclass(frozen=True, slots=True)
class Product:
    """A product that reads `operands`, writes `into`, and began on this line."""

    operands: tuple[MemoryBox, ...]
    into: MemoryBox
    line: int


@dataclass(slots=True)
class Products:
    """The products of one block, from all threads."""

    _begun: list[Product] = field(default_factory=list)
    _ended: int = 0
    _told: dict[tuple[Barrier, int], int] = field(default_factory=dict)

    def begin(self, product: Product) -> None:
        self._begun.append(product)

    def arrive(self, barrier: Barrier, phase: int) -> None:
        """The products that have begun so far arrive in this phase of the barrier."""
        self._told[barrier, phase] = len(self._begun)

    def waited(self, barrier: Barrier, phase: int) -> None:
        """A thread has waited for this phase."""
        self._ended = max(self._ended, self._told.get((barrier, phase), 0))

    def reading(self, part: MemoryBox) -> int | None:
        """The line of a product that may still be reading a part; None if there is none."""
        return next((one.line for one in self._left() if _meet(one.operands, part)), None)

    def writing(self, part: MemoryBox) -> int | None:
        """The line of a product that may still be writing a part; None if there is none."""
        return next((one.line for one in self._left() if _meet((one.into,), part)), None)

    def _left(self) -> Sequence[Product]:
        return self._begun[self._ended :]


def _meet(parts: Sequence[MemoryBox], other: MemoryBox) -> bool:
    return any(part.surely_meets(other) for part in parts)


@dataclass(slots=True)
class _State:
    """The state of one thread: its uncommitted stores, and the operations that it started."""

    stored: list[tuple[MemoryBox, int]] = field(default_factory=list)
    loose: list[tuple[MemoryBox, int]] = field(default_factory=list)
    leaving: deque[list[tuple[MemoryBox, int]]] = field(default_factory=deque)
    products: deque[list[tuple[MemoryBox, int]]] = field(default_factory=deque)
    loading: list[tuple[MemoryBox, int]] = field(default_factory=list)
    waits: dict[tuple[Any, ...], int] = field(default_factory=dict)
    at: Event | None = None  # the wait that hasn't returned


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
        self._products = Products()

    def run(self, threads: list[Events]) -> None:
        """Run all threads until each has ended or waits for ever. Raises NotKnown."""
        self._states = [_State() for _ in threads]
        ready = deque(range(len(threads)))
        while ready:
            number = ready.popleft()
            if self._goes_on(number, threads[number], ready):
                self._ends(number)
        stuck = [n for n, state in enumerate(self._states) if state.at is not None]
        if stuck:
            self._hangs(stuck)

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
                if not self._is_over(state):
                    return False
                self._returns(state)
                continue
            woken = self._happens(number, state, event)
            if not woken:
                continue
            if self._at_once[event.does]:
                ready.extendleft([*woken, number][::-1])
                return False
            ready.extend(woken)
        return True

    def _happens(self, number: int, state: _State, event: Event) -> list[int]:
        """Execute one event; returns the threads whose wait it ends."""
        match event.does:
            case GpuEventKind.STORE:
                self._written(event)
                state.stored += [(part, event.line) for part in event.parts]
            case GpuEventKind.COMMIT:
                state.stored.clear()
            case GpuEventKind.COPY_IN:
                self._written(event)
                assert event.barrier
                return self._arrives(event.barrier)
            case GpuEventKind.COPY_OUT:
                self._read(state, event, "copy_smem_to_gmem")
                state.loose += [(part, event.line) for part in event.parts]
                if event.grouped:
                    self._group(state)
            case GpuEventKind.GROUP:
                self._group(state)
            case GpuEventKind.WAIT_OUT:
                _keep(state.leaving, event.count)
            case GpuEventKind.WGMMA:
                self._read(state, event, "wgmma")
                state.products.append([(part, event.line) for part in event.parts])
            case GpuEventKind.WAIT_WGMMA:
                _keep(state.products, event.count)
            case GpuEventKind.MMA:
                self._read(state, event, "tcgen05_mma")
                self._multiplied(event)
                if event.barrier:
                    return self._tells(event.barrier)
            case GpuEventKind.TELL:
                return self._tells(event.parts[0])
            case GpuEventKind.LOAD:
                self._loaded(state, event)
            case GpuEventKind.WAIT_LOAD:
                state.loading.clear()
            case GpuEventKind.ARRIVE:
                return self._arrives(event.parts[0])
            case GpuEventKind.WAIT:
                pass
        return []

    def _multiplied(self, event: Event) -> None:
        """A Blackwell's product begins; no thread may still be loading its accumulator."""
        assert event.into
        for part, line in (one for state in self._states for one in state.loading):
            if part.surely_meets(event.into):
                self._fault(GpuHazard.STILL_LOADED, event.into, event.line, line)
                break
        self._products.begin(Product(event.parts, event.into, event.line))

    def _loaded(self, state: _State, event: Event) -> None:
        for part in event.parts:
            state.loading.append((part, event.line))
            if (line := self._products.writing(part)) is not None:
                self._fault(GpuHazard.NOT_MULTIPLIED, part, event.line, line)

    def _tells(self, barrier: MemoryBox) -> list[int]:
        """Products arrive at a barrier. They end at once, which only waiting threads know."""
        key = _place(barrier)
        self._products.arrive(key, self._completed.get(key, 0) + 1)
        return self._arrives(barrier)

    def _group(self, state: _State) -> None:
        state.leaving.append(state.loose)
        state.loose = []

    def _read(self, state: _State, event: Event, reader: str) -> None:
        """A unit reads memory; its thread must have committed its stores."""
        for part in event.parts:
            for stored, line in state.stored:
                if part.surely_meets(stored):
                    self._fault(GpuHazard.NO_COMMIT, stored, event.line, line, reader)
                    return

    def _written(self, event: Event) -> None:
        """Memory is written; no unit of any thread may still be reading it."""
        for part in event.parts:
            if (line := self._products.reading(part)) is not None:
                self._fault(GpuHazard.READ_BY_MMA, part, event.line, line)
                return
            for state in self._states:
                for read, line in (one for group in state.products for one in group):
                    if part.surely_meets(read):
                        self._fault(GpuHazard.READ_BY_WGMMA, part, event.line, line)
                        return
                for read, line in (*state.loose, *(o for group in state.leaving for o in group)):
                    if part.surely_meets(read):
                        self._fault(GpuHazard.LEAVING, part, event.line, line)
                        return

    def _ends(self, number: int) -> None:
        state = self._states[number]
        left = [*state.loose, *(one for group in state.leaving for one in group)]
        if left:
            part, line = left[-1]
            self._fault(GpuHazard.NOT_DRAINED, part, line)

    # ---- barriers ----

    def _arrives(self, barrier: MemoryBox) -> list[int]:
        key = _place(barrier)
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
        state.waits[key] = state.waits.get(key, 0) + 1
        self._products.waited(key, state.waits[key])
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


def _keep(groups: deque[list[tuple[MemoryBox, int]]], count: int) -> None:
    while len(groups) > count:
        groups.popleft()


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
        for last, order in itertools.product((False, True), _ORDERS):
            for fault in _of_block(kernel, source, last, order, tables):
                line = fault.line.line if fault.line else 0
                found.setdefault((fault.hazard, fault.ref.partition("[")[0], line), fault)
    return tuple(sorted(found.values(), key=lambda fault: _RANK[fault.hazard]))


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
