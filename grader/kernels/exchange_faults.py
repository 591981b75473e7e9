"""What is wrong in an exchange between devices, in any of the ways in which it may go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from grader.kernels.exchange import Area, Copy, Exchange, Reached, Sem, Signal, Touch, Wait
from grader.model import Between

#: The judge lets the devices go once for each pair that is in question; more would take too long.
MOST_EFFORT = 3_000_000


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong. What is None or empty has nothing to do with it.

    `copy` is the one that goes between devices, `other` is a second copy or an access. `why` says
    more of an area's credit, or of a barrier: see `between_devices`.
    """

    hazard: Between
    copy: Copy | Signal
    other: Copy | Touch | None = None
    sem: Sem | None = None
    area: Area | None = None
    count: int = 0
    why: str = ""
    hint: Signal | Wait | None = None


def unbegun(exchange: Exchange, first_semaphore: int) -> Iterator[Wrong]:
    """Copies and signals to a device that need not have begun. Barriers have small numbers."""
    for device in sorted({core[0] for core in exchange.events}):
        reached = exchange.without_device(device)
        for core in sorted(exchange.events):
            for event in exchange.events[core][: reached[core]]:
                if core[0] == device or not _reaches(event, device, first_semaphore):
                    continue
                assert isinstance(event, Copy | Signal)
                why, hint = _barrier(exchange, event, device, first_semaphore)
                yield Wrong(Between.NO_BARRIER, event, why=why, hint=hint)


def _reaches(event: object, device: int, first_semaphore: int) -> bool:
    match event:
        case Copy():
            return event.target.of[0] == device
        case Signal():
            return event.to[0] == device and event.to[1] >= first_semaphore
    return False


def _barrier(
    exchange: Exchange, event: Copy | Signal, device: int, first_semaphore: int
) -> tuple[str, Signal | Wait | None]:
    """Why a device may not have begun: who signals whom, and who waits for how many."""
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


def left_over(exchange: Exchange, first_semaphore: int) -> Iterator[Wrong]:
    """Semaphores of copies between devices, and of signals, that are not zero at the end."""
    if not exchange.complete:
        return
    raised, taken = Counter[Sem](), Counter[Sem]()
    by: dict[Sem, Copy | Signal] = {}
    for core in sorted(exchange.events):
        for event in exchange.events[core]:
            match event:
                case Wait():
                    taken[event.on] += event.count
                case Signal():
                    raised[event.to] += event.count
                    by[event.to] = event
                case Copy():
                    for sem in (event.came, event.left):
                        if sem:
                            raised[sem] += event.size
                            by[sem] = event
    for sem in sorted(by):
        if raised[sem] <= taken[sem]:
            continue
        never = sem not in taken and isinstance(by[sem], Copy)
        hazard = Between.NEVER_AWAITED if never else Between.LEFT_OVER
        yield Wrong(hazard, by[sem], sem=sem, count=raised[sem] - taken[sem])


def unordered(exchange: Exchange, first_semaphore: int) -> Iterator[Wrong]:
    """Accesses of what a copy between devices writes or reads that may come at the same time."""
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


def _touched(exchange: Exchange, copy: Copy, touch: Touch, first: int) -> Iterator[Wrong]:
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
            yield Wrong(Between.STILL_SENT, copy, touch, copy.left or copy.came, copy.source)


def _met(exchange: Exchange, copy: Copy, other: Copy, first: int) -> Iterator[Wrong]:
    if copy.target.overlaps(other.source):
        after = _before(exchange.without_arrival(copy), other)
        if not after and not _before(exchange.without_reading(other), copy):
            yield _against_arrival(exchange, copy, other, other.source, first)
    twice = not other.remote or (copy.core, copy.at) < (other.core, other.at)
    if twice and copy.target.overlaps(other.target):
        after = _before(exchange.without_arrival(copy), other)
        if not after and not _before(exchange.without_arrival(other), copy):
            own = "" if other.remote else "own"
            yield Wrong(Between.BOTH_WRITE, copy, other, copy.came, copy.target, why=own)
    if not other.remote and copy.source.overlaps(other.target):
        after = _before(exchange.without_reading(copy), other)
        if not after and not _before(exchange.without_arrival(other), copy):
            if other.core == copy.core and other.at < copy.at:
                yield Wrong(Between.EARLY, other, copy, other.came, copy.source)
            else:
                yield Wrong(Between.STILL_SENT, copy, other, copy.left or copy.came, copy.source)


def _before(reached: Reached, copy: Copy) -> bool:
    """Whether what was left out then comes before a copy: it is not started without."""
    return reached[copy.core] <= copy.at


def _against_arrival(
    exchange: Exchange, copy: Copy, use: Copy | Touch, area: Area, first: int
) -> Wrong:
    """What a copy brings may not have come when it is used, or may overwrite what is used.

    It is meant to have come where as many bytes have been waited for as its sender had sent with
    it. Else what is used is what an earlier copy has brought, if there was one.
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
        return Wrong(
            Between.SHARED, copy, use, copy.came, area, len(raising), hint=waits[-1]
        )  # fmt: skip
    if any(one.at < copy.at and one.target.overlaps(copy.target) for one in own):
        why, hint = _credit(exchange, copy, use, first)
        return Wrong(Between.IN_USE, copy, use, copy.came, area, why=why, hint=hint)
    return Wrong(Between.EARLY, copy, use, copy.came, area)


def _credit(
    exchange: Exchange, copy: Copy, other: Copy | Touch, first: int
) -> tuple[str, Signal | Wait | None]:
    """What is wrong with the word that the copy's sender should have been given."""
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
