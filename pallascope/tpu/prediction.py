"""A kernel's predicted cost as data, and its roofline.

What is known of a launch's kernels on a chip, as data.

What bounds a kernel: HBM, one of the core's units, or waiting for DMAs to arrive.
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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pallascope.model import (
    Collective,
    KernelCall,
    Problem,
    Route,
    RunCount,
    XlaCopy,
    carried,
)
from pallascope.tpu import block_sizes
from pallascope.tpu.block_sizes import Reuse
from pallascope.tpu.chips import named
from pallascope.tpu.libtpu_errors import LibtpuRefusal
from pallascope.tpu.schedule import Schedule, Unit
from pallascope.tpu.tiling import dtype_bits
from pallascope.tpu.traffic import Traffic
from pallascope.tpu.units import bytes_of, time_of
from pallascope.tpu.vmem import Vmem

_ONCE = RunCount()


@dataclass(frozen=True, slots=True)
class Prediction:
    """One kernel on one chip, as far as that is known without running it there.

    `traffic` follows from the index maps, and so does `reuse`, which aligns with its operands; what
    the kernel copies by itself is the schedule's count, where there is one. `labels` name the
    operands, each differently; the schedule uses them too. `compiled`: the compiler accepts the
    kernel. Where it refuses, `failure` says why; where it could not be asked, or where there is no
    schedule, `unknown` does.

    `schedule` and `traffic` are of one run, of which the launch makes as many as `runs` says:
    `seconds`, `cycles` and `bytes` are of all of them. `outside` has a sentence for each operand
    whose block lies outside of its array on some step: then the kernel is wrong, however long it
    takes.

    `sharing` is how many cores share the grid, its parallel axes. The schedule is then that of the
    core that has most of it, at its part of HBM's bandwidth, and so its time is the kernel's.
    `beside` are those of a mesh's other cores, each of which chooses its part by itself.

    `copied` is what XLA copies around each run, of operands that share an array: that is in
    `seconds`, `cycles` and `bytes`, and in no schedule. `sent` are the bytes of one run that a chip
    sends over its links to others, and `routes` the ways that they take; None where that is known
    only at run time. `covered` is the part
    of its matrix products, 0 to 1, that is computed while something comes from another chip; None
    where that is not known, or where there are none.
    """

    chip: str
    call: KernelCall
    labels: tuple[str, ...]
    traffic: Traffic
    reuse: tuple[Reuse | None, ...]
    compiled: bool = False
    vmem: Vmem | None = None
    schedule: Schedule | None = None
    failure: LibtpuRefusal | None = None
    unknown: str = ""
    runs: RunCount = _ONCE
    outside: tuple[str, ...] = ()
    sharing: int = 1
    copied: tuple[XlaCopy, ...] = ()
    sent: int | None = 0
    routes: tuple[Route, ...] | None = ()
    beside: tuple[Schedule, ...] = ()
    covered: float | None = None

    @property
    def cycles(self) -> float:
        """Predicted cycles of all runs, without the launch; 0 where there is no schedule."""
        if self.schedule is None:
            return 0.0
        return (self.schedule.cycles + self._copying) * self.runs.times

    @property
    def seconds(self) -> float | None:
        """Predicted time on the chip, without the launch; None where there is no schedule."""
        return self.cycles / named(self.chip).clock if self.schedule else None

    @property
    def least(self) -> str:
        """Why `seconds` and `cycles` are no more than lower bounds; "" where they are the time."""
        return self.schedule.least if self.schedule else ""

    @property
    def bandwidth(self) -> float:
        """Of HBM, bytes a second that the core gets whose schedule this is."""
        return named(self.chip).bandwidth_of_each(self.sharing)

    @property
    def bytes(self) -> int:
        """Bytes between HBM and the chip in all runs: as scheduled, else by the index maps."""
        return (self._bytes_of_a_run + self.copied_bytes) * self.runs.times

    @property
    def sent_bytes(self) -> int | None:
        """What a chip sends to others in all runs; None where nobody can tell."""
        return None if self.sent is None or self.runs.untold else self.sent * self.runs.times

    @property
    def carried_bytes(self) -> int | None:
        """What links carry of that: bytes times hops. None where nobody can tell."""
        if self.routes is None or self.runs.untold:
            return None
        return carried(self.routes) * self.runs.times

    @property
    def copied_bytes(self) -> int:
        """What XLA's copies around one run read and write."""
        return sum(map(self.size_of, self.copied))

    def size_of(self, copy: XlaCopy) -> int:
        """The bytes that one of XLA's copies reads and writes."""
        array = self.call.operands[copy.operand].array
        return 2 * block_sizes.stored_bytes(array.shape, dtype_bits(array.dtype))

    def cycles_of(self, copy: XlaCopy) -> float:
        """The cycles that one of XLA's copies takes, at HBM's bandwidth."""
        chip = named(self.chip)
        return self.size_of(copy) / chip.bandwidth * chip.clock

    @property
    def _copying(self) -> float:
        return sum(map(self.cycles_of, self.copied))

    @property
    def _bytes_of_a_run(self) -> int:
        if self.schedule is None or (self.sharing > 1 and not self.traffic.unknown):
            return self.traffic.bytes
        if self.beside:
            return sum(one.bytes for one in (self.schedule, *self.beside))
        return self.schedule.bytes * self.sharing


@dataclass(frozen=True, slots=True)
class OnChip:
    """What became of one launch on its way to the chips: as far as it came.

    `problem` is what Mosaic or the trace for a TPU refused. Without it there is a prediction for
    each kernel on each chip, and there are the `collectives` around the kernels.
    """

    problem: Problem | None = None
    predictions: tuple[Prediction, ...] = ()
    collectives: tuple[Collective, ...] = ()

    @property
    def unsupported(self) -> bool:
        """Whether this version of jax keeps something elsewhere that is needed to lower."""
        return self.problem is not None and self.problem.kind == "UnsupportedJax"

    def on(self, chip: str) -> tuple[Prediction, ...]:
        """The launch's kernels on one chip, in program order."""
        return tuple(p for p in self.predictions if p.chip == chip)

    @property
    def not_compiled(self) -> tuple[Prediction, ...]:
        """The kernels that the compiler has neither accepted nor refused: it was not asked."""
        return tuple(p for p in self.predictions if not p.compiled and p.failure is None)


def routes_of(kernels: Sequence[Prediction]) -> tuple[Route, ...] | None:
    """The ways of all that these kernels send, each once; None where they are not known."""
    count = Counter[tuple[tuple[str, int], ...]]()
    for kernel in kernels:
        if kernel.routes is None or kernel.runs.untold:
            return None
        for route in kernel.routes:
            count[route.steps] += route.bytes * kernel.runs.times
    return tuple(Route(steps, size) for steps, size in sorted(count.items()))


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
