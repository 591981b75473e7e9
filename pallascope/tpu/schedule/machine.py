"""Simulates memory, DMA engine, semaphores, delays and waits around the scalar core.

The DMA engine runs one transfer at a time, at HBM's bandwidth, and each arrives a fixed latency
later. Transfers within the chip cost the latency only. The speed of a DMA from HBM to HBM isn't
published. It reads and writes its bytes, so it counts as HBM's time for both, and `least` says that
the total is a lower bound.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

from pallascope.tpu.schedule.bundles import NotUnderstood
from pallascope.tpu.schedule.registers import (
    Address,
    OperandSource,
    Unknown,
    divide,
)

#: SMEM has 2**18 words, so every allocation gets that many. The first of them holds the core's
#: number, on chips whose two cores share a kernel.
ALLOCATION_SHIFT = 18
_CORE = 1 << ALLOCATION_SHIFT

WITHIN_HBM = "a DMA from HBM to HBM: its speed was never measured"

#: Added to a semaphore's number if it is on another chip.
_OTHER_CHIP = 1 << 14


@dataclass(frozen=True, slots=True)
class Transfer:
    """One DMA between HBM and the chip, from `start` to `end` (cycles), and its bytes."""

    operand: str
    inward: bool
    start: float
    end: float
    size: int


@dataclass(slots=True)
class Landing:
    """The place on the chip that a transfer comes from or goes to, and its semaphore.

    `place` is an address in VMEM, in granules; None if there is none or it is unknown. `flag` is
    the semaphore's number, and `awaited` the cycle when the core has finished waiting for it.
    """

    place: int | None
    flag: int
    awaited: float | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """The core waited from `start` to `end` (cycles); `operand` is "" if not for a DMA."""

    operand: str
    inward: bool
    start: float
    end: float


@dataclass(slots=True)
class _Arrival:
    time: float
    amount: int
    operand: str = ""
    inward: bool = False


@dataclass(slots=True)
class _Semaphore:
    """Its count now, and the additions to come. Negative if a wait takes before they arrive."""

    count: int = 0
    due: list[_Arrival] = field(default_factory=list)  # by time

    def settle(self, now: float) -> None:
        while self.due and self.due[0].time <= now:
            self.count += self.due.pop(0).amount


@dataclass
class Machine:
    """The state of one core while a schedule runs. Times are in cycles, sizes in bytes.

    `words` are the known contents of operands that the scalar core reads, as 32-bit words. Sums are
    by operand and direction; single events are kept up to `most_events`.
    """

    latency: float
    bytes_per_cycle: float
    granule: int
    names: Mapping[OperandSource, str]
    words: Mapping[OperandSource, Sequence[int]]
    most_events: int
    now: float = 0.0
    free: float = 0.0  # when the DMA engine has taken its last transfer's bytes
    core: int = 0
    memory: dict[int, Any] = field(default_factory=dict)
    flags: dict[int, _Semaphore] = field(default_factory=lambda: defaultdict(_Semaphore))
    moved: Counter[tuple[str, bool]] = field(default_factory=Counter)
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    least: str = ""  # the reason if the time is only a lower bound
    waited: defaultdict[tuple[str, bool], float] = field(default_factory=lambda: defaultdict(float))
    transfers: list[Transfer] = field(default_factory=list)
    landings: list[Landing] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    queues: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    unawaited: dict[int, deque[tuple[int, Landing]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    log: list[Any] = field(default_factory=list)  # of blocks that are logged: see `Logged`

    def __post_init__(self) -> None:
        self.memory[_CORE] = self.core

    def value(self, source: OperandSource) -> Any:
        """A scalar operand, passed by value."""
        words = self.words.get(source)
        return words[0] if words else Unknown(f"the value of {self._name(source)}")

    def load(self, address: Any) -> Any:
        """One word of SMEM."""
        if isinstance(address, Unknown):
            return address
        return self.memory.get(address, _UNWRITTEN)

    def store(self, address: Any, value: Any, condition: Any) -> None:
        """Write one word of SMEM, if the condition holds."""
        if isinstance(condition, Unknown):
            value = condition
        elif not condition:
            return
        self.memory[index(address)] = value

    def general_transfer(
        self, kind: str, source: Any, granules: Any, target: Any, flag: Any
    ) -> None:
        """Issue a DMA with any number of strides; `kind` is "" if the listing has none."""
        if index(flag) & _OTHER_CHIP:
            raise NotUnderstood("a DMA to another chip")
        spaces = ("hbm" if isinstance(place, Address) else "vmem" for place in (source, target))
        self.transfer(kind or "_to_".join(spaces), source, granules, target, flag, dense=False)

    def transfer(
        self, kind: str, source: Any, granules: Any, target: Any, flag: Any, dense: bool = True
    ) -> None:
        """Issue a DMA of a `kind` such as "hbm_to_vmem". The semaphore `flag` counts granules."""
        granules = index(granules)
        if granules < 0:
            raise NotUnderstood("a DMA of negative size, as for a block outside of its array")
        size = granules * self.granule
        start, _, end = kind.partition("_to_")
        if not {start, end} <= {"hbm", "vmem", "smem"}:
            names = f"{start.upper()} to {end.upper()}"
            raise NotUnderstood(f"a DMA from {names}: its speed was never measured")
        if start == end == "hbm":
            self.least = WITHIN_HBM
        arrival = _Arrival(self.now + self.latency, granules)
        spilled = {start, end} == {"hbm", "smem"} and type(source) is type(target) is int
        for place, other, inward in ((source, target, True), (target, source, False)):
            if (start if inward else end) == "hbm":
                within = other if "vmem" in (start, end) and isinstance(other, int) else None
                name = _SPILLS if spilled else self._name(_operand_address(place).source)
                self._through_hbm(arrival, name, inward, size)
                self._note_landing(Landing(within, index(flag)), granules)
        if spilled:
            words = [self.load(source + word) for word in range(size // 4)]
            self.memory.update(enumerate(words, target))
        elif end == "smem":
            self._fill(index(target), size // 4, source if dense else None)
        bisect.insort(self.flags[index(flag)].due, arrival, key=lambda one: one.time)

    def _through_hbm(self, arrival: _Arrival, operand: str, inward: bool, size: int) -> None:
        """Move bytes from or to HBM as soon as HBM is free."""
        arrival.inward, arrival.operand = inward, operand
        begins = max(self.now, self.free)
        self.free = begins + size / self.bytes_per_cycle
        arrival.time = self.free + self.latency
        self.moved[arrival.operand, inward] += size
        self.counts[arrival.operand, inward] += 1
        if len(self.transfers) < self.most_events:
            moved = Transfer(arrival.operand, inward, begins, arrival.time, size)
            self.transfers.append(moved)

    def _note_landing(self, landing: Landing, granules: int) -> None:
        if len(self.landings) < self.most_events:
            self.landings.append(landing)
            self.unawaited[landing.flag].append((granules, landing))

    def _note_waited(self, flag: int, granules: int) -> None:
        """The core has waited for this many granules more; assigned to the earliest transfers."""
        waiting = self.unawaited[flag]
        while waiting and granules > 0:
            size, landing = waiting.popleft()
            if size > granules:
                waiting.appendleft((size - granules, landing))
            else:
                landing.awaited = self.now
            granules -= size

    def _fill(self, target: int, count: int, source: Any) -> None:
        """Copy the known contents of an operand into SMEM, a word at a time."""
        words: Sequence[int] = ()
        missing = Unknown("data that a DMA brought into SMEM")
        if isinstance(source, Address):
            first = source.offset * self.granule // 4
            words = self.words.get(source.source, ())[first:] if first >= 0 else ()
            missing = Unknown(f"the contents of {self._name(source.source)}")
        known = [*words[:count], *[missing] * (count - len(words))]
        self.memory.update(enumerate(known, target))

    def wait(self, flag: Any, amount: Any) -> None:
        """Stall until a semaphore counts at least `amount`."""
        self._wait(flag, index(amount))
        self._note_waited(index(flag), index(amount))

    def _wait(self, flag: Any, amount: int) -> None:
        semaphore = self._settled(flag)
        missing = amount - semaphore.count
        if missing <= 0:
            return
        for arrival in semaphore.due:
            missing -= arrival.amount
            if missing <= 0:
                return self._stall(arrival)
        raise NotUnderstood("a wait for something that this core never sends")

    def delay(self, cycles: Any) -> None:
        """Do nothing for this many cycles, as `pl.delay` asks."""
        self._stall(_Arrival(self.now + index(cycles), 0))

    def _stall(self, until: _Arrival) -> None:
        start, end = self.now, until.time
        self.waited[until.operand, until.inward] += end - start
        if len(self.stalls) < self.most_events:
            self.stalls.append(Stall(until.operand, until.inward, start, end))
        self.now = end

    def signal(self, flag: Any, amount: Any) -> None:
        """Add to a semaphore, or take from it an amount that is there or will be."""
        self.flags[index(flag)].count += index(amount)

    def read_flag(self, flag: Any) -> None:
        """Queue a semaphore's present count for a later `pop`."""
        self.queues["sfrf"].append(self._settled(flag).count)

    def _settled(self, flag: Any) -> _Semaphore:
        semaphore = self.flags[index(flag)]
        semaphore.settle(self.now)
        return semaphore

    def divide(self, dividend: Any, divisor: Any, kinds: str) -> None:
        """Queue a quotient ("Div" in `kinds`), then a remainder ("Rem"), for later `pop`s."""
        results = zip(("Div", "Rem"), divide(dividend, divisor), strict=True)
        self.queues["drf"] += [result for kind, result in results if kind in kinds]

    def halt(self, condition: Any, message: str) -> None:
        """Stop if the condition holds; an unknown condition is assumed to be false."""
        if not isinstance(condition, Unknown) and condition:
            raise NotUnderstood(f"the kernel stops with an error: {message}")

    def pop(self, queue: str) -> Any:
        """The first queued value: from `divide` in "drf", from `read_flag` in "sfrf"."""
        if not self.queues[queue]:
            raise NotUnderstood(f"a read of {queue}, which nothing has filled")
        return self.queues[queue].pop(0)

    def _name(self, source: OperandSource) -> str:
        return self.names.get(source, f"{source.kind} {source.index}")


#: The operand whose bytes are scalar registers: if there are too few, the compiler saves some in
#: SMEM, and SMEM in HBM. `Machine.memory` has its allocations in both.
_SPILLS = "scalar spills"

_UNWRITTEN = Unknown("scalar memory that was not written before")


def _operand_address(address: Any) -> Address:
    if not isinstance(address, Address):
        index(address)  # raises with the reason if it is unknown
        raise NotUnderstood("a DMA to an address that belongs to no operand")
    return address
