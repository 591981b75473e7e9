"""Scratch buffers of manual DMA: their slots, a timeline of each, overlap of copies and compute.

Both come from the simulated schedule. A trace has each DMA's size, but not the number of times that
it runs if that depends on the grid step, on lengths in SMEM or on a pipeline's state.

The compiler numbers its allocations: first its own, whose count depends on the version of libtpu,
then the launch's scratch, in order. A scratch operand's name is used only if a single numbering
fits: all buffers that are copied to are scratch in VMEM, and all semaphores are semaphores. Buffers
from a kernel's body (`run_scoped`, `emit_pipeline`) have no names; their slots are numbered in the
order of their first use.

A slot that a copy fills is in flight, then arrived until the core has waited for it, then in use
until the next copy into it starts. A slot that a copy empties is in flight, then free once the core
has waited for the copy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pallascope.model import KernelCall, Operand, Role
from pallascope.tpu import block_sizes
from pallascope.tpu.block_rules import dtype_bits
from pallascope.tpu.chips import named
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.schedule import Landing, OperandDmas, Schedule, Transfer
from pallascope.tpu.schedule.machine import ALLOCATION_SHIFT
from pallascope.tpu.traffic import OperandTraffic, Traffic


def with_scheduled_dma(traffic: Traffic, labels: Sequence[str], schedule: Schedule) -> Traffic:
    """The traffic with the schedule's counts for the operands of manual DMA.

    `labels` align with the operands and are their names in the schedule, which must be for a whole
    run, not for one core's part.
    """
    rows = tuple(
        _with_schedule_counts(row, [one for one in schedule.moved if one.operand == label])
        for row, label in zip(traffic.operands, labels, strict=True)
    )
    reasons = iter(traffic.unknown)
    told = [(row, next(reasons)) for row in traffic.operands if row.bytes is None]
    unknown = tuple(why for row, why in told if not row.by_hand)
    return dataclasses.replace(traffic, operands=rows, unknown=unknown)


def _with_schedule_counts(row: OperandTraffic, moved: Sequence[OperandDmas]) -> OperandTraffic:
    """One operand. If the trace has the same bytes, its padding is known too."""
    size = sum(dmas.size for dmas in moved)
    if not row.by_hand or size == row.bytes:
        return row
    return dataclasses.replace(
        row,
        moves=sum(dmas.count for dmas in moved),
        bytes=size,
        written=sum(dmas.size for dmas in moved if not dmas.inward),
        padding=0,
        least=min(size, row.stored),
    )


#: Addresses in VMEM count rows of 128 lanes of 32 bits.
_ROW = 512
#: The possible numbers of the first scratch operand's allocation: 2 with libtpu 0.0.42, 3 with
#: 0.0.50.1. In an address it is one more.
_FIRST_SCRATCH_NUMBERS = (2, 3)


@dataclass(frozen=True, slots=True)
class ManualTransfer:
    """A transfer of manual DMA, its slot, and the semaphore that counts it.

    `awaited` is the cycle when the core has finished waiting for it; None if it never waits.
    """

    transfer: Transfer
    slot: str
    semaphore: str
    awaited: float | None


def manual_transfers(kernel: Prediction) -> tuple[ManualTransfer, ...]:
    """The transfers of manual DMA in a kernel's schedule, in the order of their starts."""
    schedule = kernel.schedule
    if schedule is None or not schedule.landings:
        return ()
    pairs = zip(kernel.labels, kernel.traffic.operands, strict=True)
    by_hand_operands = {label for label, row in pairs if row.by_hand}
    if not by_hand_operands:
        return ()
    pairs = zip(schedule.transfers, schedule.landings, strict=True)
    transfers = [
        (transfer, landing) for transfer, landing in pairs if transfer.operand in by_hand_operands
    ]
    names = _AllocationNames(
        kernel.call, named(kernel.chip).granule, [landing for _, landing in transfers]
    )
    return tuple(
        ManualTransfer(
            transfer, names.slot(transfer, landing), names.flag(landing), landing.awaited
        )
        for transfer, landing in transfers
    )


class _AllocationNames:
    """Names of slots and semaphores: scratch operands, else numbers by first use."""

    def __init__(self, call: KernelCall, granule: int, landings: Sequence[Landing]) -> None:
        self._scratch = call.role(Role.SCRATCH)
        self._rows = _ROW // granule
        self._numbers: dict[tuple[str, bool], dict[int, int]] = {}
        self._first = self._fitting(landings)

    def _fitting(self, landings: Sequence[Landing]) -> int | None:
        """The first scratch operand's number that gives the most names; None for several such."""
        flags = {_allocation(landing.flag)[0] for landing in landings}
        places = {
            _allocation(landing.place // self._rows)[0]
            for landing in landings
            if landing.place is not None
        }
        counted: list[tuple[int, int]] = []
        for first in _FIRST_SCRATCH_NUMBERS:
            spaces = {first + n: operand.space for n, operand in enumerate(self._scratch)}
            fits = all(spaces.get(n, "vmem") == "vmem" for n in places) and all(
                "semaphore" in spaces.get(n, "semaphore") for n in flags
            )
            if fits:
                counted.append((sum(n in spaces for n in places | flags), first))
        largest = max((count for count, _ in counted), default=0)
        best = [first for count, first in counted if count == largest]
        return best[0] if largest and len(best) == 1 else None

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
    """The number of an address's allocation, and the offset in it."""
    number, offset = divmod(address, 1 << ALLOCATION_SHIFT)
    return number - 1, offset


def _part(operand: Operand, offset: int) -> str:
    """The part of a buffer that begins at an offset in bytes, by its leading dimension."""
    shape = operand.array.shape
    if len(shape) < 3:
        return operand.name
    slot_bytes = block_sizes.stored_bytes(shape[1:], dtype_bits(operand.array.dtype))
    return _indexed(operand.name, shape[:1], offset // slot_bytes)


def _indexed(name: str, shape: Sequence[int], number: int) -> str:
    if math.prod(shape) <= 1:
        return name
    index = []
    for size in reversed(shape):
        number, at = divmod(number, size)
        index.append(str(at))
    return f"{name}[{', '.join(reversed(index))}]"


# ---- overlap ----


Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The overlap of manual DMA with compute.

    The core doesn't wait during `computing` cycles; a manual DMA is in flight in `hidden` of them.
    """

    computing: float
    hidden: float

    @property
    def share(self) -> float:
        """The fraction of `computing` during which a manual DMA is in flight."""
        return self.hidden / self.computing if self.computing else 0.0


def overlap(kernel: Prediction, copies: Sequence[ManualTransfer], until: float) -> Overlap:
    """The overlap up to a cycle, as far as single events were kept."""
    schedule = kernel.schedule
    assert schedule is not None
    waits = [(stall.start, stall.end) for stall in schedule.stalls if stall.start < until]
    computing = list(_gaps(waits, until))
    moving = merged_spans((one.transfer.start, one.transfer.end) for one in copies)
    return Overlap(_length(computing), _length(_intersections(computing, moving)))


def merged_spans(spans: Iterator[Span]) -> list[Span]:
    """Spans in order, with those that touch or overlap merged."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def max_concurrent(copies: Sequence[ManualTransfer]) -> int:
    """The largest number of these transfers that are in flight at the same time."""
    times = sorted(
        (time, change)
        for copy in copies
        for time, change in ((copy.transfer.start, 1), (copy.transfer.end, -1))
    )
    maximum = current = 0
    for _, change in times:
        current += change
        maximum = max(maximum, current)
    return maximum


def _gaps(waits: Sequence[Span], until: float) -> Iterator[Span]:
    now = 0.0
    for start, end in waits:
        if start > now:
            yield now, start
        now = end
    if until > now:
        yield now, until


def _intersections(spans: Sequence[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Where spans of two ordered lists overlap."""
    position = 0
    for start, end in spans:
        while position < len(others) and others[position][1] <= start:
            position += 1
        other = position
        while other < len(others) and others[other][0] < end:
            yield max(start, others[other][0]), min(end, others[other][1])
            other += 1


def _length(spans: Sequence[Span] | Iterator[Span]) -> float:
    return sum(end - start for start, end in spans)


#: An operand with more slots, such as one for each row of a gather, gets a single lane.
MAX_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """A slot's state from `start` to `end` (cycles), with the bytes that move meanwhile."""

    name: str
    start: float
    end: float
    size: int = 0


@dataclass(slots=True)
class _ConcurrentCopies:
    """Copies that are in flight to or from one slot at the same time."""

    start: float
    end: float
    size: int
    awaited: float | None


def slot_lanes(copies: Sequence[ManualTransfer], end: float) -> dict[str, list[Phase]]:
    """Each slot's phases up to a cycle, by "x_ref → came[0]" or "goes[0] → o_ref"."""
    by_way: dict[tuple[str, bool], dict[str, list[ManualTransfer]]] = {}
    for copy in copies:
        key = copy.transfer.operand, copy.transfer.inward
        by_way.setdefault(key, {}).setdefault(copy.slot, []).append(copy)
    lanes: dict[str, list[Phase]] = {}
    for (operand, inward), slots in by_way.items():
        if len(slots) > MAX_SLOTS:
            together = [
                copy for copy in copies if _operand_and_direction(copy) == (operand, inward)
            ]
            slots = {f"{len(slots)} places": together}
        for slot, group in sorted(slots.items(), key=lambda item: _natural_order(item[0])):
            name = f"{operand} → {slot}" if inward else f"{slot} → {operand}"
            name = name if slot else f"{operand} {'in' if inward else 'out'}"
            lanes[name] = list(_phases(operand, inward, _concurrent_copies(group), end))
    return lanes


def _operand_and_direction(one: ManualTransfer) -> tuple[str, bool]:
    return one.transfer.operand, one.transfer.inward


def _natural_order(name: str) -> tuple[int, str]:
    return len(name), name


def _concurrent_copies(copies: Iterable[ManualTransfer]) -> list[_ConcurrentCopies]:
    groups: list[_ConcurrentCopies] = []
    for copy in sorted(copies, key=lambda each: each.transfer.start):
        moved, awaited = copy.transfer, copy.awaited
        if groups and moved.start < groups[-1].end:
            last = groups[-1]
            last.end, last.size = max(last.end, moved.end), last.size + moved.size
            known = None not in (last.awaited, awaited)
            last.awaited = max(last.awaited or 0.0, awaited or 0.0) if known else None
        else:
            groups.append(_ConcurrentCopies(moved.start, moved.end, moved.size, awaited))
    return groups


def _phases(
    operand: str, inward: bool, flights: Sequence[_ConcurrentCopies], end: float
) -> Iterator[Phase]:
    way, state = ("in", "there") if inward else ("out", "gone")
    for number, group in enumerate(flights):
        until = flights[number + 1].start if number + 1 < len(flights) else end
        known = until if group.awaited is None else min(max(group.awaited, group.end), until)
        yield Phase(f"{operand} {way}", group.start, group.end, group.size)
        if known > group.end:
            yield Phase(f"{operand} {state}, not waited for yet", group.end, known)
        if inward and until > known:
            yield Phase(f"{operand} in use", known, until)
