"""One block of a kernel for GPUs: its threads, run in turns, and what they share.

Copies and products are under way until their thread has waited for them: what is written here
while a unit may still read it, some run on a GPU writes too. Copies into shared memory take no time
here, so that a wait which never ends here ends nowhere.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from grader.kernels.gpu_events import Does, Event, Part
from grader.kernels.gpu_following import Events
from grader.kernels.gpu_products import Product, Products
from grader.model import Disorder, GpuFault, Place, Source


@dataclass(slots=True)
class _State:
    """Of one thread: what it has stored and not committed, and what it has started."""

    stored: list[tuple[Part, int]] = field(default_factory=list)
    loose: list[tuple[Part, int]] = field(default_factory=list)
    leaving: deque[list[tuple[Part, int]]] = field(default_factory=deque)
    products: deque[list[tuple[Part, int]]] = field(default_factory=deque)
    loading: list[tuple[Part, int]] = field(default_factory=list)
    waits: dict[tuple[Any, ...], int] = field(default_factory=dict)
    at: Event | None = None  # the wait that has not returned


class Block:
    """The threads of a block and what they share."""

    def __init__(self, source: Source, after_copies: bool, after_arrivals: bool) -> None:
        at_once = dict.fromkeys((Does.COPY_IN, Does.MMA, Does.TELL), after_copies)
        self._at_once = {**at_once, Does.ARRIVE: after_arrivals}
        self.faults: list[GpuFault] = []
        self._source = source
        self._states: list[_State] = []
        self._arrived: dict[tuple[Any, ...], int] = {}
        self._completed: dict[tuple[Any, ...], int] = {}
        self._products = Products()

    def run(self, threads: list[Events]) -> None:
        """Run them all until each has ended or waits for ever. Raises NotFollowed."""
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
        """Run one thread until another can go on, it waits, or it ends: True."""
        state = self._states[number]
        if state.at is not None:
            if not self._is_over(state):
                return False
            self._returns(state)
        for event in thread:
            if event.does is Does.WAIT:
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
        """One event; the threads whose wait it ends."""
        match event.does:
            case Does.STORE:
                self._written(event)
                state.stored += [(part, event.line) for part in event.parts]
            case Does.COMMIT:
                state.stored.clear()
            case Does.COPY_IN:
                self._written(event)
                assert event.barrier
                return self._arrives(event.barrier)
            case Does.COPY_OUT:
                self._read(state, event, "copy_smem_to_gmem")
                state.loose += [(part, event.line) for part in event.parts]
                if event.grouped:
                    self._group(state)
            case Does.GROUP:
                self._group(state)
            case Does.WAIT_OUT:
                _keep(state.leaving, event.count)
            case Does.WGMMA:
                self._read(state, event, "wgmma")
                state.products.append([(part, event.line) for part in event.parts])
            case Does.WAIT_WGMMA:
                _keep(state.products, event.count)
            case Does.MMA:
                self._read(state, event, "tcgen05_mma")
                self._multiplied(event)
                if event.barrier:
                    return self._tells(event.barrier)
            case Does.TELL:
                return self._tells(event.parts[0])
            case Does.LOAD:
                self._loaded(state, event)
            case Does.WAIT_LOAD:
                state.loading.clear()
            case Does.ARRIVE:
                return self._arrives(event.parts[0])
            case Does.WAIT:
                pass
        return []

    def _multiplied(self, event: Event) -> None:
        """A product on a Blackwell begins: into what no thread may still be loading."""
        assert event.into
        for part, line in (one for state in self._states for one in state.loading):
            if part.surely_meets(event.into):
                self._fault(Disorder.STILL_LOADED, event.into, event.line, line)
                break
        self._products.begin(Product(event.parts, event.into, event.line))

    def _loaded(self, state: _State, event: Event) -> None:
        for part in event.parts:
            state.loading.append((part, event.line))
            if (line := self._products.writing(part)) is not None:
                self._fault(Disorder.NOT_MULTIPLIED, part, event.line, line)

    def _tells(self, barrier: Part) -> list[int]:
        """Products arrive at a barrier. Here they end at once; who hasn't waited can't know."""
        key = _place(barrier)
        self._products.arrive(key, self._completed.get(key, 0) + 1)
        return self._arrives(barrier)

    def _group(self, state: _State) -> None:
        state.leaving.append(state.loose)
        state.loose = []

    def _read(self, state: _State, event: Event, reader: str) -> None:
        """A unit reads what the same thread may not have committed."""
        for part in event.parts:
            for stored, line in state.stored:
                if part.surely_meets(stored):
                    self._fault(Disorder.NO_COMMIT, stored, event.line, line, reader)
                    return

    def _written(self, event: Event) -> None:
        """What is written while a unit of any thread may be reading it."""
        for part in event.parts:
            if (line := self._products.reading(part)) is not None:
                self._fault(Disorder.READ_BY_MMA, part, event.line, line)
                return
            for state in self._states:
                for read, line in (one for group in state.products for one in group):
                    if part.surely_meets(read):
                        self._fault(Disorder.READ_BY_WGMMA, part, event.line, line)
                        return
                for read, line in (*state.loose, *(o for group in state.leaving for o in group)):
                    if part.surely_meets(read):
                        self._fault(Disorder.LEAVING, part, event.line, line)
                        return

    def _ends(self, number: int) -> None:
        state = self._states[number]
        left = [*state.loose, *(one for group in state.leaving for one in group)]
        if left:
            part, line = left[-1]
            self._fault(Disorder.NOT_DRAINED, part, line)

    # ---- barriers ----

    def _arrives(self, barrier: Part) -> list[int]:
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
        """A wait that comes when its phase, and the one after it, have completed."""
        key = _place(event.parts[0])
        if self._completed.get(key, 0) - state.waits.get(key, 0) > 1:
            self._fault(Disorder.LAPPED, event.parts[0], event.line)

    def _returns(self, state: _State) -> None:
        assert state.at
        key = _place(state.at.parts[0])
        state.waits[key] = state.waits.get(key, 0) + 1
        self._products.waited(key, state.waits[key])
        state.at = None

    def _hangs(self, stuck: list[int]) -> None:
        # Where some have arrived and not enough, the count is wrong; and where none ever has, that
        # is missing. The other waits follow.
        first, *others = sorted(stuck, key=lambda n: (not self._had(n), self._has_completed(n)))
        event = self._states[first].at
        assert event
        barrier = event.parts[0]
        self.faults.append(
            GpuFault(
                Disorder.NEVER_ARRIVES,
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
        self, disorder: Disorder, part: Part, line: int, since: int = 0, reader: str = ""
    ) -> None:
        places = self._place(line), self._place(since) if since != line else None
        self.faults.append(GpuFault(disorder, str(part), *places, reader))

    def _place(self, line: int) -> Place | None:
        return self._source.place(line) if line else None


def _place(barrier: Part) -> tuple[Any, ...]:
    """Which barrier of an array of them: one that is named without an index is its only one."""
    index = tuple(start for start, _ in barrier.box) if barrier.box else ()
    return (barrier.memory.key, index or (0,))


def _keep(groups: deque[list[tuple[Part, int]]], count: int) -> None:
    while len(groups) > count:
        groups.popleft()
