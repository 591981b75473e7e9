"""Communication timeline: each chip's sends, arrivals and waits, in order."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from jax.extend import core

from pallascope.kernels.dma_events import (
    MOST_EQUATIONS,
    Awaited,
    DmaEvaluator,
    Event,
    Multiplied,
    Place,
    Semaphore,
    Signalled,
    Started,
    Waited,
)
from pallascope.kernels.evaluator import EquationBudget, NotKnown, Number
from pallascope.model import (
    ActionKind,
    Axes,
    CommTimeline,
    DeviceAction,
)

#: Longer timelines are cut.
MOST_MOMENTS, MOST_DEEDS = 60, 1500

#: A chip, and one of its semaphores.
_Key = tuple[int, Hashable, tuple[Number, ...]]


def comm_timeline(
    kernel: core.Jaxpr, grid: Sequence[int], axes: Axes, named: Sequence[str] = ()
) -> CommTimeline | None:
    """All chips of a mesh of these axes, in step; None if a copy depends on data."""
    sizes, budget = dict(axes), EquationBudget(MOST_EQUATIONS)
    places = list(itertools.product(*map(range, sizes.values())))
    chips = []
    for number, place in enumerate(places):
        at = dict(zip(sizes, place, strict=True))
        run = DmaEvaluator(kernel, tuple(grid), at, sizes, tuple(named), budget, signals=True)
        chips.append(_Chip(number, run.run()))
    try:
        return _Timeline(places, chips).run()
    except NotKnown:
        return None


def _said(semaphore: Semaphore) -> str:
    buffer, index = semaphore
    if None in index:
        raise NotKnown("which semaphore it is depends on data that the kernel reads")
    return buffer.name + (f"[{', '.join(str(int(one or 0)) for one in index)}]" if index else "")


def _key(chip: int, semaphore: Semaphore) -> _Key:
    buffer, index = semaphore
    return chip, buffer.key, index


@dataclass(slots=True)
class _Chip:
    """One chip and its progress through its events."""

    number: int
    events: Iterator[Event]
    next: Event | None = None
    ended: bool = False
    began: bool = False

    def event(self) -> Event | None:
        """The next event."""
        if not self.began:
            self.began = True
            self.done()
        return self.next

    def done(self) -> None:
        """Go on to the next event."""
        self.next = next(self.events, None)
        self.ended = self.next is None


@dataclass(slots=True)
class _Timeline:
    places: list[Place]
    chips: list[_Chip]
    _there: Counter[_Key] = field(default_factory=Counter)
    _coming: Counter[_Key] = field(default_factory=Counter)
    _deeds: int = 0

    def run(self) -> CommTimeline:
        moments = []
        while not all(chip.ended for chip in self.chips):
            before = self._deeds
            moments.append(tuple(tuple(self._deeds_of(chip)) for chip in self.chips))
            if self._deeds == before and not self._coming:
                return CommTimeline(tuple(self.places), tuple(moments), stuck=True)
            self._there += self._coming
            self._coming.clear()
            if len(moments) == MOST_MOMENTS or self._deeds > MOST_DEEDS:
                return CommTimeline(tuple(self.places), tuple(moments), whole=False)
        return CommTimeline(tuple(self.places), tuple(moments))

    def _deeds_of(self, chip: _Chip) -> Iterator[DeviceAction]:
        """A chip's actions until it waits for something that isn't there."""
        operations = 0
        while (event := chip.event()) is not None and self._deeds <= MOST_DEEDS:
            if isinstance(event, Multiplied):
                operations += event.operations
            else:
                if operations:
                    yield DeviceAction(ActionKind.MULTIPLIES, size=operations)
                    operations = 0
                deed = self._deed(chip.number, event)
                yield deed
                if deed.act is ActionKind.WAITS:
                    return
            self._deeds += 1
            chip.done()
        if operations:
            yield DeviceAction(ActionKind.MULTIPLIES, size=operations)

    def _deed(self, me: int, event: Started | Waited | Signalled | Awaited) -> DeviceAction:
        said = _said(event.semaphore)
        if isinstance(event, Started):
            return self._start(me, event, said)
        if isinstance(event, Signalled):
            to = self._number(event.to) if event.remote else me
            self._coming[_key(to, event.semaphore)] += event.count
            return DeviceAction(ActionKind.SIGNALS, to=to, semaphore=said, size=event.count)
        size = event.size if isinstance(event, Waited) else event.count
        key = _key(me, event.semaphore)
        if self._there[key] < size:
            return DeviceAction(ActionKind.WAITS, semaphore=said, size=size)
        self._there[key] -= size
        return DeviceAction(ActionKind.GETS, semaphore=said, size=size)

    def _start(self, me: int, event: Started, said: str) -> DeviceAction:
        what, into = event.source.said, event.target.said
        if not event.remote:
            self._coming[_key(me, event.semaphore)] += event.target.size
            return DeviceAction(
                ActionKind.COPIES, what, into, semaphore=said, size=event.source.size
            )
        to = self._number(event.to)
        self._coming[_key(to, event.semaphore)] += event.target.size
        if event.own is not None:
            self._coming[_key(me, event.own)] += event.source.size
        return DeviceAction(ActionKind.SENDS, what, into, to, said, event.source.size)

    def _number(self, place: Place | None) -> int:
        if place is None:
            raise NotKnown("which chip it is depends on data that the kernel reads")
        return self.places.index(place)
