"""Simulates a schedule: cycles of one core.

A long run repeats itself. `RepeatedTurns` compares turns of the grid's loop that are one period
apart, such as the number of steps of the inner axes. If three periods in a row run the same blocks
in the same time, and all scalars grow by the same amounts, the following periods do so too, until a
comparison changes its sign. They are left out, and all sums grow by theirs.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pallascope.tpu.chips import Chip
from pallascope.tpu.schedule.bundles import NotUnderstood, busy, parse, spills
from pallascope.tpu.schedule.machine import (
    Landing,
    Machine,
    Stall,
    Transfer,
)
from pallascope.tpu.schedule.registers import SIGN, Address, OperandSource, Unknown
from pallascope.tpu.schedule.scalar_core import MAX_BLOCKS, Logged, ScheduleProgram


@dataclass(frozen=True, slots=True)
class OperandDmas:
    """All DMAs of one operand in one direction: their bytes, and the cycles spent waiting for them.

    An empty name stands for waits for something other than an operand's DMA. `count` is the number
    of DMAs.
    """

    operand: str
    inward: bool
    size: int
    stalled: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """One kernel's predicted run on one core. Times are in cycles, sizes in bytes.

    `cycles` is issue and stalls together. `stalled` and `moved` are by operand, in both directions;
    a stall that isn't for a DMA has no operand. Of a long run, `transfers`, `stalls` and `turns`
    hold the beginning. `turns` are the cycles at which each iteration of the outermost loop began:
    the grid's loop, if it has more than one step. If the grid has blocks to move, there are two
    iterations more than steps, and step n computes in iteration n + 1, while the next blocks move
    in.

    `landings` align with `transfers`: the place on the chip where each begins or ends. `least` is
    the reason if `cycles` are only a lower bound, otherwise "".
    """

    cycles: float
    issue: int
    busy: dict[str, int]  # cycles by Unit's value
    spills: int
    moved: tuple[OperandDmas, ...]
    transfers: tuple[Transfer, ...]
    stalls: tuple[Stall, ...]
    turns: tuple[float, ...]
    least: str = ""
    landings: tuple[Landing, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes moved between HBM and the chip."""
        return sum(moved.size for moved in self.moved)

    @property
    def stalled(self) -> float:
        """Cycles in which the core waited for a DMA or a semaphore."""
        return self.cycles - self.issue


def simulate(
    listing: str,
    chip: Chip,
    names: Mapping[OperandSource, str],
    words: Mapping[OperandSource, Sequence[int]],
    most_events: int = 0,
    core: int = 0,
    grid: Sequence[int] = (),
) -> Schedule:
    """Run the listing of one kernel on one core of a chip, by the core's number.

    `names` are the operands' names in the result. `words` are the contents of operands that the
    scalar core reads, as 32-bit words in the order of SMEM. Up to `most_events` of each kind of
    event are kept. `grid` has the sizes of the grid's axes, if the kernel has one. Raises
    NotUnderstood if the listing has something of unknown effect or duration, depends on values that
    only a real run has, or runs for too long.
    """
    bundles = parse(listing)
    program = ScheduleProgram(bundles, chip.branch_delay, chip.free_gaps)
    machine = Machine(
        latency=chip.dma_latency * chip.clock,
        bytes_per_cycle=chip.bandwidth / chip.clock,
        granule=chip.granule,
        names=names,
        words=words,
        most_events=most_events,
        core=core,
    )
    repeated = RepeatedTurns(grid)
    ran = program.run(machine, repeated)
    return Schedule(
        cycles=machine.now,
        issue=sum(ran.counts),
        busy=busy(bundles, ran.counts),
        spills=spills(bundles, ran.counts),
        moved=_moved(machine),
        transfers=tuple(machine.transfers),
        stalls=tuple(machine.stalls),
        turns=ran.turns[: min(most_events, repeated.beginning)],
        least=machine.least,
        landings=tuple(machine.landings),
    )


def _moved(machine: Machine) -> tuple[OperandDmas, ...]:
    keys = dict.fromkeys((*machine.moved, *machine.waited))
    return tuple(
        OperandDmas(*key, machine.moved[key], machine.waited[key], machine.counts[key])
        for key in keys
    )


#: The log of a period may have so many entries; a longer one isn't searched for.
_MAX_LOG = 1_000_000

#: Times are sums of fractions: two are the same if they differ by less, in cycles.
_SAME = 1e-3

#: The number of different states of all DMAs that are remembered.
_MOST_STATES = 100_000

#: If so many turns run one after the other, and none can be left out, none will be.
_MOST_TURNS = 50_000

#: Scalars may repeat only after a multiple of the turns after which the DMAs do.
_MULTIPLES = (1, 2, 3, 4, 6, 8)

#: For how long the DMA engine is busy; then each semaphore's number, its count, and the times and
#: amounts that are due.
_Waits = tuple[Any, ...]


class _Uneven(Exception):
    """Something doesn't grow by the same amount in each period."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Everything that decides about a run, at the beginning of a turn, and all sums.

    `turn` is the turn's number, counting those left out, and `logged` the number of entries that
    the log has had.
    """

    turn: int
    logged: int
    now: float
    waits: _Waits
    scalars: tuple[tuple[Any, ...], tuple[Any, ...], dict[int, Any]]
    sums: tuple[dict[Any, float], ...]


@dataclass
class RepeatedTurns:
    """Leaves out the periods of a run that repeat those before.

    Raises NotUnderstood for a run that is too long, and doesn't repeat itself.
    """

    grid: Sequence[int]
    left_out: int = 0  # turns
    beginning: int = sys.maxsize  # the number of turns before any was left out
    _turn: int = 0
    _latest_jump: int = 0  # the turn, without those left out
    _start: int = 0  # the number of entries that were removed from the log
    _latest: dict[tuple[int, _Waits], int] = field(default_factory=dict)  # the turn, by the waits
    _seen: dict[int, deque[_Snapshot]] = field(default_factory=dict)  # by the length
    _failed: Counter[int] = field(default_factory=Counter)  # attempts, by the length

    def __call__(
        self, turn: int, s: list[Any], p: list[Any], machine: Machine, counts: Counter[int]
    ) -> bool:
        """Compare the turn that begins with earlier ones; leave out those that repeat them."""
        self._turn = turn + self.left_out
        if turn - self._latest_jump > _MOST_TURNS:
            self._check_length(turn, sum(counts.values()))
            return False
        if any(machine.queues.values()):
            return True
        sums = (counts, machine.moved, machine.counts, machine.waited)
        present = self._snapshot(s, p, machine, sums)
        for length in self._lengths(present.waits):
            seen = self._seen.setdefault(length, deque(maxlen=4))
            seen.append(present)
            if len(seen) == seen.maxlen and self._is_due(length):
                if times := self._times(length, machine.log):
                    self._leave_out(times, length, s, p, machine, sums)
                    self._latest_jump = turn
                    break
                self._failed[length] += 1
        self._shorten(machine.log)
        return True

    def _check_length(self, turn: int, blocks: float) -> None:
        """Raise NotUnderstood if the whole grid would run too many blocks."""
        steps = math.prod(self.grid)
        if blocks / turn * (steps - self.left_out) > MAX_BLOCKS:
            raise NotUnderstood(
                f"{steps:,} grid steps, too many to simulate, since they don't repeat each other"
            )

    def _lengths(self, waits: _Waits) -> list[int]:
        """After how many turns the run may repeat: since all DMAs were as far as now."""
        found: list[int] = []
        for period in {math.prod(self.grid[axis:]) for axis in range(1, len(self.grid) + 1)} | {1}:
            if self._turn % period == 2 % period:
                if before := self._latest.get((period, waits)):
                    found += [times * (self._turn - before) for times in _MULTIPLES]
                self._latest[period, waits] = self._turn
        if len(self._latest) > _MOST_STATES:
            self._latest.clear()
        return sorted(length for length in set(found) if self._turn % length == 2 % length)

    def _is_due(self, length: int) -> bool:
        """Attempts that fail become rare."""
        failed = self._failed[length]
        return failed < 8 or failed & (failed - 1) == 0 or self._turn % (8 * length) == 2

    def _snapshot(
        self, s: list[Any], p: list[Any], machine: Machine, sums: tuple[Any, ...]
    ) -> _Snapshot:
        now = machine.now
        due = (
            (number, flag.count, *((_rounded(one.time - now), one.amount) for one in flag.due))
            for number, flag in machine.flags.items()
        )
        return _Snapshot(
            turn=self._turn,
            logged=self._start + len(machine.log),
            now=now,
            waits=(_rounded(machine.free - now), *due),
            scalars=(tuple(s), tuple(p), dict(machine.memory)),
            sums=tuple(map(dict, sums)),
        )

    def _times(self, period: int, log: Sequence[Any]) -> int:
        """How many periods repeat the last one; 0 if unknown."""
        seen = self._seen[period]
        if any(b.turn - a.turn != period for a, b in itertools.pairwise(seen)):
            return 0
        try:
            _check_times(seen)
            _growths(seen)
            bounds = [one.logged - self._start for one in seen]
            parts = [log[a:b] for a, b in itertools.pairwise(bounds)]
            times = _evenly(parts)
        except _Uneven:
            return 0
        return times if times > 1 else 0

    def _leave_out(
        self,
        times: int,
        period: int,
        s: list[Any],
        p: list[Any],
        machine: Machine,
        sums: tuple[Any, ...],
    ) -> None:
        """Bring everything to where it will be `times` periods later."""
        before, last = list(self._seen[period])[-2:]
        growths = _growths(self._seen[period])
        everything: tuple[Any, ...] = (s, p, machine.memory)
        for values, growth in zip(everything, growths, strict=True):
            for key, grown in growth.items():
                values[key] = _moved_by(values[key], grown, times)
        took = times * (last.now - before.now)
        machine.now += took
        machine.free += took
        for flag in machine.flags.values():
            for arrival in flag.due:
                arrival.time += took
        for total, old, new in zip(sums, before.sums, last.sums, strict=True):
            for key, value in new.items():
                total[key] += times * (value - old.get(key, 0))
        # Single events are those of the beginning.
        machine.most_events = 0
        self.beginning = min(self.beginning, self._turn + 1)
        machine.unawaited.clear()
        self.left_out += times * period
        machine.log.append((Logged.CONSTANT, period, times))
        for shorter, seen in self._seen.items():
            if shorter <= period:
                seen.clear()

    def _shorten(self, log: list[Any]) -> None:
        """Remove the entries of the log that no comparison needs."""
        if len(log) > 4 * _MAX_LOG:
            for seen in self._seen.values():
                if seen and self._start + len(log) - seen[0].logged > _MAX_LOG:
                    seen.clear()
        needed = min((seen[0].logged for seen in self._seen.values() if seen), default=None)
        kept = len(log) if needed is None else needed - self._start
        if kept > _MAX_LOG // 10:
            del log[:kept]
            self._start += kept


def _items(values: Any) -> dict[Any, Any]:
    return values if isinstance(values, dict) else dict(enumerate(values))


def _check_times(seen: Sequence[_Snapshot]) -> None:
    """Raise _Uneven unless each period takes as long, and leaves as much to come."""
    took = [b.now - a.now for a, b in itertools.pairwise(seen)]
    if max(took) - min(took) > _SAME or any(one.waits != seen[0].waits for one in seen):
        raise _Uneven


def _rounded(wait: float) -> float:
    """A time until something happens, in cycles; 0 if it has happened."""
    return round(max(wait, 0.0), 2)


def _growths(seen: Sequence[_Snapshot]) -> list[dict[Any, int]]:
    """By how much each register and word grows in a period. Raises _Uneven."""
    found = []
    for values in zip(*(one.scalars for one in seen), strict=True):
        items = list(map(_items, values))
        if any(other.keys() != items[0].keys() for other in items):
            raise _Uneven
        found.append({key: _growth([one[key] for one in items]) for key in items[0]})
    return found


def _growth(values: Sequence[Any]) -> int:
    """By how much each value is larger than the one before. Raises _Uneven."""
    first, second, *_ = values
    if all(value is first for value in values):
        return 0
    if isinstance(first, Address):
        if any(not isinstance(v, Address) or v.source != first.source for v in values):
            raise _Uneven
        return _growth([value.offset for value in values])
    if isinstance(first, Unknown):
        if all(isinstance(v, Unknown) and not isinstance(v, Address) for v in values):
            return 0
        raise _Uneven
    if any(isinstance(value, Unknown) for value in values):
        raise _Uneven
    growth = second - first
    if any(b - a != growth for a, b in itertools.pairwise(values)):
        raise _Uneven
    if growth and isinstance(first, bool):
        raise _Uneven
    return growth


def _moved_by(value: Any, growth: int, times: int) -> Any:
    if not growth:
        return value
    if isinstance(value, Address):
        return Address(value.source, value.offset + times * growth)
    return value + times * growth


def _evenly(parts: Sequence[Sequence[Any]]) -> int:
    """How many more periods have effects that grow evenly. Raises _Uneven.

    `parts` are the log's entries of periods one after the other.
    """
    if len({len(part) for part in parts}) > 1:
        raise _Uneven
    return min(map(_limit, zip(*parts, strict=True)), default=0)


def _limit(entries: Sequence[Any]) -> int:
    """The same for one place of the log: the entries of each period there."""
    *_, last = entries
    if not isinstance(last, tuple):
        if any(entry != last for entry in entries):
            raise _Uneven
        return SIGN
    if any(not isinstance(entry, tuple) or entry[0] != last[0] for entry in entries):
        raise _Uneven
    kind = Logged(last[0])
    growth, grown = (_growth([entry[place] for entry in entries]) for place in (1, 2))
    _, first, second = last
    if isinstance(first, Unknown) or isinstance(second, Unknown):
        # Only effects need known values, and these must stay the same.
        if kind is Logged.CONSTANT and (growth or grown):
            raise _Uneven
        return SIGN
    if not growth and not grown:
        return SIGN
    operands = (first, growth), (second, grown)
    limits = [_within_word(*operand) for operand in operands]
    match kind:
        case Logged.COMPARED | Logged.UNSIGNED:
            limits.append(_keeps_sign(first - second, growth - grown))
            if kind is Logged.UNSIGNED:
                limits += [_keeps_half(*operand) for operand in operands]
        case _ if not _grows_evenly(kind, *operands):
            raise _Uneven
        case Logged.MULTIPLIED:
            limits.append(_within_word(first * second, growth * second + grown * first))
        case Logged.SHIFTED | Logged.DIVIDED:  # of unsigned words
            limits.append(_keeps_half(*operands[0]))
        case Logged.SCALED:
            limits.append(_within_word(first << (second & 31), growth << (second & 31)))
    return min(limits)


def _within_word(value: int, growth: int) -> int:
    """For how many periods a value fits into a word."""
    return max((SIGN - 1 - abs(value)) // abs(growth), 0) if growth else SIGN


def _keeps_half(value: int, growth: int) -> int:
    """For how many periods a word stays below 0, or doesn't get there."""
    return _keeps_sign(value if value < 0 else value + 1, growth)


def _keeps_sign(difference: int, growth: int) -> int:
    """For how many periods a difference stays above or below 0."""
    if not growth:
        return SIGN
    if difference == 0:
        raise _Uneven
    if (difference > 0) == (growth > 0):
        return SIGN
    return (abs(difference) - 1) // abs(growth)


def _grows_evenly(kind: Logged, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether an instruction's result does, from its operands and their growth."""
    (value, growth), (other, grown) = first, second
    match kind:
        case Logged.MULTIPLIED:
            return not (growth and grown)
        case Logged.SCALED:
            return not grown
        case Logged.LOW_BITS:
            mask, more = (value, grown) if grown else (other, growth)
            bits = (mask if mask >= 0 else ~mask).bit_length()
            return not (growth and grown) and more % (1 << bits) == 0
        case Logged.SHIFTED:
            return not grown and growth % (1 << (other & 31)) == 0
        case Logged.DIVIDED:
            return not grown and other != 0 and growth % other == 0
        case _:
            return False
