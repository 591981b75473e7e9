"""Simulates a schedule: cycles of one core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pallascope.tpu.chips import Chip
from pallascope.tpu.schedule.bundles import busy, parse, spills
from pallascope.tpu.schedule.machine import (
    Landing,
    Machine,
    Stall,
    Transfer,
)
from pallascope.tpu.schedule.registers import OperandSource
from pallascope.tpu.schedule.scalar_core import ScheduleProgram


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
) -> Schedule:
    """Run the listing of one kernel on one core of a chip, by the core's number.

    `names` are the operands' names in the result. `words` are the contents of operands that the
    scalar core reads, as 32-bit words in the order of SMEM. Up to `most_events` of each kind of
    event are kept. Raises NotUnderstood if the listing has something of unknown effect or duration,
    or depends on values that only a real run has.
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
    ran = program.run(machine)
    return Schedule(
        cycles=machine.now,
        issue=sum(ran.counts),
        busy=busy(bundles, ran.counts),
        spills=spills(bundles, ran.counts),
        moved=_moved(machine),
        transfers=tuple(machine.transfers),
        stalls=tuple(machine.stalls),
        turns=ran.turns[:most_events],
        least=machine.least,
        landings=tuple(machine.landings),
    )


def _moved(machine: Machine) -> tuple[OperandDmas, ...]:
    keys = dict.fromkeys((*machine.moved, *machine.waited))
    return tuple(
        OperandDmas(*key, machine.moved[key], machine.waited[key], machine.counts[key])
        for key in keys
    )
