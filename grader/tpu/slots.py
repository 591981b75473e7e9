"""The slots of scratch buffers that a kernel copies to and from by itself, and their semaphores.

The compiler numbers what it allocates: the scratch that a launch asks for comes first, in order,
after as many allocations of its own as the version of libtpu decides. Names are given where only
one number fits: each buffer that is copied to has to be scratch in VMEM, each semaphore one.

What a kernel allocates in its body (`run_scoped`, `emit_pipeline`) has no name by which the listing
could be tied to it: its slots are numbered as they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.model import KernelCall, Operand, Role
from grader.tpu import layout
from grader.tpu.chips import named
from grader.tpu.prediction import Prediction
from grader.tpu.schedule import Landing, Transfer
from grader.tpu.schedule.machine import ALLOCATION_SHIFT
from grader.tpu.tiling import dtype_bits

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
    each = layout.stored_bytes(shape[1:], dtype_bits(operand.array.dtype))
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
