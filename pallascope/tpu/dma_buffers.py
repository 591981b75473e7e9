"""Scratch buffers of manual DMA: their slots, and a timeline of each.

What a kernel copies by itself, as the compiler's schedule has it.
A trace tells what each DMA moves, but not how often it runs where that depends on the step, on
lengths in SMEM or on a pipeline's own bookkeeping. The schedule has executed all of that.

The slots of scratch buffers that a kernel copies to and from by itself, and their semaphores.
The compiler numbers what it allocates: the scratch that a launch asks for comes first, in order,
after as many allocations of its own as the version of libtpu decides. Names are given where only
one number fits: each buffer that is copied to has to be scratch in VMEM, each semaphore one.

What a kernel allocates in its body (`run_scoped`, `emit_pipeline`) has no name by which the listing
could be tied to it: its slots are numbered as they come.

What happens in each slot that a kernel copies to or from by itself, over time.
A slot that is filled is on its way, then there until the core has waited for it, then in use until
the next copy into it starts. One that is emptied is on its way, then gone, and may be written again
once the core has waited for that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pallascope.model import KernelCall, Operand, Role
from pallascope.tpu import block_sizes
from pallascope.tpu.chips import named
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.schedule import Landing, OperandDmas, Schedule, Transfer
from pallascope.tpu.schedule.machine import ALLOCATION_SHIFT
from pallascope.tpu.tiling import dtype_bits
from pallascope.tpu.traffic import OperandTraffic, Traffic


def as_scheduled(traffic: Traffic, labels: Sequence[str], schedule: Schedule) -> Traffic:
    """The same with the schedule's counts for the operands that the kernel copies by itself.

    `labels` align with the operands, and are the schedule's names for them. The schedule is that of
    a whole run: not of one core's part.
    """
    rows = tuple(
        _counted(row, [one for one in schedule.moved if one.operand == label])
        for row, label in zip(traffic.operands, labels, strict=True)
    )
    reasons = iter(traffic.unknown)
    told = [(row, next(reasons)) for row in traffic.operands if row.bytes is None]
    unknown = tuple(why for row, why in told if not row.by_hand)
    return dataclasses.replace(traffic, operands=rows, unknown=unknown)


def _counted(row: OperandTraffic, moved: Sequence[OperandDmas]) -> OperandTraffic:
    """One operand. Where the trace has the same bytes, it also knows which of them are padding."""
    size = sum(one.size for one in moved)
    if not row.by_hand or size == row.bytes:
        return row
    return dataclasses.replace(
        row,
        moves=sum(one.count for one in moved),
        bytes=size,
        written=sum(one.size for one in moved if not one.inward),
        padding=0,
        least=min(size, row.stored),
    )


#: Addresses in VMEM count rows of 128 lanes of 32 bits.
_ROW = 512
#: What the number of the first scratch operand's allocation may be: 2 with libtpu 0.0.42, 3 with
#: 0.0.50.1. In an address it is one more.
_FIRST = (2, 3)


@dataclass(frozen=True, slots=True)
class ByHand:
    """A copy that the kernel makes itself: the slot it uses, and the semaphore that counts it.

    `awaited` is the cycle at which the core has waited for it, None where it never does.
    """

    transfer: Transfer
    slot: str
    semaphore: str
    awaited: float | None


def copies_by_hand(kernel: Prediction) -> tuple[ByHand, ...]:
    """The transfers of a kernel's schedule that no index map asks for, as they were started."""
    schedule = kernel.schedule
    if schedule is None or not schedule.landings:
        return ()
    pairs = zip(kernel.labels, kernel.traffic.operands, strict=True)
    own = {label for label, row in pairs if row.by_hand}
    if not own:
        return ()
    both = zip(schedule.transfers, schedule.landings, strict=True)
    found = [(transfer, landing) for transfer, landing in both if transfer.operand in own]
    names = _Names(kernel.call, named(kernel.chip).granule, [landing for _, landing in found])
    return tuple(
        ByHand(transfer, names.slot(transfer, landing), names.flag(landing), landing.awaited)
        for transfer, landing in found
    )


class _Names:
    """Names for places: those of scratch operands, else numbers in the order of their first use."""

    def __init__(self, call: KernelCall, granule: int, landings: Sequence[Landing]) -> None:
        self._scratch = call.role(Role.SCRATCH)
        self._rows = _ROW // granule
        self._numbers: dict[tuple[str, bool], dict[int, int]] = {}
        self._first = self._fitting(landings)

    def _fitting(self, landings: Sequence[Landing]) -> int | None:
        """The first scratch operand's number: the one that names most; None where several do."""
        flags = {_allocation(each.flag)[0] for each in landings}
        places = {
            _allocation(each.place // self._rows)[0] for each in landings if each.place is not None
        }
        named_: list[tuple[int, int]] = []
        for first in _FIRST:
            spaces = {first + n: operand.space for n, operand in enumerate(self._scratch)}
            fits = all(spaces.get(n, "vmem") == "vmem" for n in places) and all(
                "semaphore" in spaces.get(n, "semaphore") for n in flags
            )
            if fits:
                named_.append((sum(n in spaces for n in places | flags), first))
        most = max((count for count, _ in named_), default=0)
        best = [first for count, first in named_ if count == most]
        return best[0] if most and len(best) == 1 else None

    def slot(self, transfer: Transfer, landing: Landing) -> str:
        if landing.place is None:
            return ""
        number, offset = _allocation(landing.place // self._rows)
        operand = self._operand(number)
        if operand is not None and operand.space == "vmem":
            return _part(operand, offset * _ROW)
        seen = self._numbers.setdefault((transfer.operand, transfer.inward), {})
        return f"slot {seen.setdefault(landing.place, len(seen))}"

    def flag(self, landing: Landing) -> str:
        number, offset = _allocation(landing.flag)
        operand = self._operand(number)
        if operand is None or "semaphore" not in operand.space:
            return ""
        return _indexed(operand.name, operand.array.shape, offset)

    def _operand(self, number: int) -> Operand | None:
        if self._first is None:
            return None
        position = number - self._first
        return self._scratch[position] if 0 <= position < len(self._scratch) else None


def _allocation(address: int) -> tuple[int, int]:
    """The number of an allocation, and how far behind its beginning an address lies."""
    number, offset = divmod(address, 1 << ALLOCATION_SHIFT)
    return number - 1, offset


def _part(operand: Operand, offset: int) -> str:
    """Which part of a buffer begins so many bytes behind it, by its leading dimension."""
    shape = operand.array.shape
    if len(shape) < 3:
        return operand.name
    each = block_sizes.stored_bytes(shape[1:], dtype_bits(operand.array.dtype))
    return _indexed(operand.name, shape[:1], offset // each)


def _indexed(name: str, shape: Sequence[int], number: int) -> str:
    if math.prod(shape) <= 1:
        return name
    index = []
    for size in reversed(shape):
        number, at = divmod(number, size)
        index.append(str(at))
    return f"{name}[{', '.join(reversed(index))}]"


# ---- what overlaps ----


Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far copies by hand hide behind computing.

    `computing` are the cycles in which the core does not wait, and `hidden` those of them during
    which a copy by hand is on its way.
    """

    computing: float
    hidden: float

    @property
    def share(self) -> float:
        """Of computing, the part during which something is on its way."""
        return self.hidden / self.computing if self.computing else 0.0


def overlap(kernel: Prediction, copies: Sequence[ByHand], until: float) -> Overlap:
    """What overlaps up to a cycle, as far as single events were kept."""
    schedule = kernel.schedule
    assert schedule is not None
    waits = [(stall.start, stall.end) for stall in schedule.stalls if stall.start < until]
    computing = list(_between(waits, until))
    moving = united((one.transfer.start, one.transfer.end) for one in copies)
    return Overlap(_length(computing), _length(_both(computing, moving)))


def united(spans: Iterator[Span]) -> list[Span]:
    """Spans that touch or overlap, as one each; in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def most_at_once(copies: Sequence[ByHand]) -> int:
    """How many of these copies are on their way at a time, at most."""
    times = sorted(
        (time, change)
        for one in copies
        for time, change in ((one.transfer.start, 1), (one.transfer.end, -1))
    )
    most = now = 0
    for _, change in times:
        now += change
        most = max(most, now)
    return most


def _between(waits: Sequence[Span], until: float) -> Iterator[Span]:
    now = 0.0
    for start, end in waits:
        if start > now:
            yield now, start
        now = end
    if until > now:
        yield now, until


def _both(ones: Sequence[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Where spans of two ordered lists overlap."""
    at = 0
    for start, end in ones:
        while at < len(others) and others[at][1] <= start:
            at += 1
        there = at
        while there < len(others) and others[there][0] < end:
            yield max(start, others[there][0]), min(end, others[there][1])
            there += 1


def _length(spans: Sequence[Span] | Iterator[Span]) -> float:
    return sum(end - start for start, end in spans)


#: Of an operand with more slots, such as one for each row of a gather, there is one lane for all.
MOST_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """What a slot does from `start` to `end` (cycles), with the bytes that it moves meanwhile."""

    name: str
    start: float
    end: float
    size: int = 0


@dataclass(slots=True)
class _Flight:
    """Copies that are on their way to or from one slot together."""

    start: float
    end: float
    size: int
    awaited: float | None


def slot_lanes(copies: Sequence[ByHand], end: float) -> dict[str, list[Phase]]:
    """Up to a cycle, what each slot does, by "x_ref → came[0]" or "goes[0] → o_ref"."""
    by_way: dict[tuple[str, bool], dict[str, list[ByHand]]] = {}
    for one in copies:
        way = one.transfer.operand, one.transfer.inward
        by_way.setdefault(way, {}).setdefault(one.slot, []).append(one)
    lanes: dict[str, list[Phase]] = {}
    for (operand, inward), slots in by_way.items():
        if len(slots) > MOST_SLOTS:
            together = [one for one in copies if _way(one) == (operand, inward)]
            slots = {f"{len(slots)} places": together}
        for slot, group in sorted(slots.items(), key=lambda item: _natural(item[0])):
            name = f"{operand} → {slot}" if inward else f"{slot} → {operand}"
            name = name if slot else f"{operand} {'in' if inward else 'out'}"
            lanes[name] = list(_phases(operand, inward, _flights(group), end))
    return lanes


def _way(one: ByHand) -> tuple[str, bool]:
    return one.transfer.operand, one.transfer.inward


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


def _flights(copies: Iterable[ByHand]) -> list[_Flight]:
    found: list[_Flight] = []
    for one in sorted(copies, key=lambda each: each.transfer.start):
        moved, awaited = one.transfer, one.awaited
        if found and moved.start < found[-1].end:
            last = found[-1]
            last.end, last.size = max(last.end, moved.end), last.size + moved.size
            known = None not in (last.awaited, awaited)
            last.awaited = max(last.awaited or 0.0, awaited or 0.0) if known else None
        else:
            found.append(_Flight(moved.start, moved.end, moved.size, awaited))
    return found


def _phases(operand: str, inward: bool, flights: Sequence[_Flight], end: float) -> Iterator[Phase]:
    way, there = ("in", "there") if inward else ("out", "gone")
    for number, one in enumerate(flights):
        until = flights[number + 1].start if number + 1 < len(flights) else end
        known = until if one.awaited is None else min(max(one.awaited, one.end), until)
        yield Phase(f"{operand} {way}", one.start, one.end, one.size)
        if known > one.end:
            yield Phase(f"{operand} {there}, not waited for yet", one.end, known)
        if inward and until > known:
            yield Phase(f"{operand} in use", known, until)
