"""What bounds a kernel: HBM, one of the core's units, or waiting for DMAs to arrive.

Two things take time at once: the core issues bundles, and HBM moves bytes. At best they overlap,
and the kernel takes as long as the longer of the two: the floor. What it takes beyond the floor is
waiting that nothing hides, the latency of DMAs. The larger of the two names the bound:

    HBM          moving the bytes at full bandwidth takes at least as long as issuing, and at least
                 half of the time
    DMA latency  what is left beyond the floor is more than that, or, where issuing is the floor,
                 more than the busiest unit takes
    a unit       else: the one that most of the issued bundles need

So a matmul that computes for 99 % of its time is bound by the MXU, though its bytes take 71 %;
one with 41 % of waiting, 29 % of MXU and 23 % for its bytes is bound by DMA latency.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.tpu.chips import named
from grader.tpu.prediction import Prediction
from grader.tpu.schedule import Unit
from grader.tpu.units import bytes_of, time_of


class Bound(enum.Enum):
    """What a kernel would have to do less of, or faster, to take less time."""

    HBM = "HBM"
    MXU = "MXU"
    XLU = "XLU"
    EUP = "EUP"
    VPU = "VPU"
    VMEM = "loads and stores"
    SCALAR = "the scalar core"
    LATENCY = "DMA latency"


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where the time of one kernel goes, in seconds.

    `memory` is what its `bytes` take at HBM's full `bandwidth`. `units` are the bundles issued, by
    the unit that each needs most, busiest first; together with `waiting` they make `total`.
    """

    total: float
    bytes: int
    bandwidth: float
    units: tuple[tuple[Unit, float], ...]
    waiting: float

    @property
    def memory(self) -> float:
        """Seconds for the bytes alone."""
        return self.bytes / self.bandwidth

    @property
    def issue(self) -> float:
        """Seconds in which bundles are issued."""
        return self.total - self.waiting

    @property
    def bound(self) -> Bound:
        """What names the bound, by the rule above."""
        if self.memory >= self.issue:
            return Bound.HBM if self.memory >= self.total / 2 else Bound.LATENCY
        busiest, taken = self.units[0]
        return Bound.LATENCY if self.waiting > taken else Bound[busiest.name]

    @property
    def why(self) -> str:
        """The numbers behind the bound, in one sentence."""
        moved = f"{bytes_of(self.bytes)} at {self.bandwidth / 1e9:.0f} GB/s take"
        moving = f"{moved} {time_of(self.memory)}, {self.memory / self.total:.0%} of the time"
        if self.bound is Bound.HBM:
            return moving
        if self.bound is Bound.LATENCY:
            return f"{self.waiting / self.total:.0%} of the time is spent waiting; {moving}"
        _, taken = self.units[0]
        return f"busy for {time_of(taken)}, {taken / self.total:.0%} of the time; {moving}"


def roofline(kernel: Prediction) -> Roofline | None:
    """Where one kernel's time goes; None where there is no schedule."""
    schedule = kernel.schedule
    if schedule is None or not schedule.cycles:
        return None
    chip = named(kernel.chip)
    found = ((unit, schedule.busy.get(unit.value, 0) / chip.clock) for unit in Unit)
    return Roofline(
        total=schedule.cycles / chip.clock,
        bytes=schedule.bytes,
        bandwidth=kernel.bandwidth,
        units=tuple(sorted((each for each in found if each[1]), key=lambda each: -each[1])),
        waiting=schedule.stalled / chip.clock,
    )
