"""A kernel's predicted cost as data, and its roofline.

The core issues bundles while HBM moves bytes. At best they overlap, and the kernel takes as long as
the longer of the two: the floor. The rest is exposed waiting, the latency of DMAs. The bound is

    its launch   if that takes more than half of the time
    HBM          if moving the bytes at full bandwidth takes at least as long as issuing, and at
                 least half of the time
    DMA latency  if the time beyond the floor is longer than that, or, where issuing is the floor,
                 longer than the busiest unit takes
    a unit       otherwise: the one that most of the issued bundles need

So a matmul that computes for 99 % of its time is bound by the MXU, although its bytes take 71 %;
one with 41 % of waiting, 29 % of MXU and 23 % for its bytes is bound by DMA latency.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pallascope.model import (
    Collective,
    Cut,
    KernelCall,
    Problem,
    Route,
    RunCount,
    XlaCopy,
    total_link_bytes,
)
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu import block_sizes
from pallascope.tpu.block_rules import dtype_bits
from pallascope.tpu.block_sizes import Reuse
from pallascope.tpu.chips import named
from pallascope.tpu.libtpu_errors import LibtpuRefusal
from pallascope.tpu.schedule import Schedule, Unit
from pallascope.tpu.traffic import Traffic
from pallascope.tpu.vmem import Vmem

_ONCE = RunCount()


@dataclass(frozen=True, slots=True)
class MeanRun:
    """The mean of a kernel's runs: cycles without the launch, and bytes without XLA's copies."""

    cycles: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted cost of one kernel on one chip.

    `traffic` and `reuse`, which aligns with its operands, follow from the index maps; the traffic
    of manual DMA comes from the schedule if there is one. `labels` are unique names of the
    operands, which the schedule uses too. `compiled`: the compiler accepts the kernel. `failure` is
    its error if it refuses; `unknown` is the reason if it is unavailable, or if there is no
    schedule.

    `schedule` and `traffic` are for one run, and the launch makes `runs`: `seconds`, `cycles` and
    `bytes` are for all of them. `outside` has a sentence for each operand whose block is out of
    bounds on some step; then the kernel is wrong.

    `sharing` cores share the parallel axes of the grid. The schedule is that of the core with the
    most work, with its share of HBM's bandwidth, so its time is the kernel's. `beside` are the
    schedules of a mesh's other cores, each of which chooses its own part of the work.

    If a loop around the kernel changes its tables, its runs differ: `schedule` and `traffic` are
    those of the longest run, and `mean` is the mean of all runs.

    `copied` are XLA's copies of aliased operands around each run, which count in `seconds`,
    `cycles` and `bytes` but are in no schedule. In one run a chip sends `sent` bytes to others,
    along `routes`; both are None if they are known only at run time. `covered` is the share of the
    matrix products, 0 to 1, that overlaps with copies from another chip; None if unknown, or if
    there are no products.
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
    mean: MeanRun | None = None

    @property
    def cycles(self) -> float:
        """Predicted cycles of all runs, with known times of launches; 0 without a schedule."""
        if self.schedule is None:
            return 0.0
        chip = named(self.chip)
        launch = chip.launch * chip.clock
        cycles = self.mean.cycles if self.mean else self.schedule.cycles
        return (launch + cycles + self._copying) * self.runs.times

    @property
    def seconds(self) -> float | None:
        """Predicted time on the chip, in the same way; None without a schedule."""
        return self.cycles / named(self.chip).clock if self.schedule else None

    @property
    def least(self) -> str:
        """The reason if `seconds` and `cycles` are only lower bounds, otherwise ""."""
        return self.schedule.least if self.schedule else ""

    @property
    def bandwidth(self) -> float:
        """HBM's bandwidth for the scheduled core, in bytes per second."""
        return named(self.chip).bandwidth_of_each(self.sharing)

    @property
    def bytes(self) -> int:
        """Bytes between HBM and the chip in all runs: by the schedule, else by the index maps."""
        once = self.mean.bytes if self.mean else self.bytes_of_a_run
        return round((once + self.copied_bytes) * self.runs.times)

    @property
    def sent_bytes(self) -> int | None:
        """The bytes that a chip sends to others in all runs; None if unknown."""
        return None if self.sent is None or self.runs.untold else self.sent * self.runs.times

    @property
    def link_bytes(self) -> int | None:
        """The load on the links: bytes times hops; None if unknown."""
        if self.routes is None or self.runs.untold:
            return None
        return total_link_bytes(self.routes) * self.runs.times

    @property
    def copied_bytes(self) -> int:
        """The bytes that XLA's copies around one run read and write."""
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
    def bytes_of_a_run(self) -> int:
        """The bytes of the run with this schedule, without XLA's copies."""
        if self.schedule is None or (self.sharing > 1 and not self.traffic.unknown):
            return self.traffic.bytes
        if self.beside:
            return sum(schedule.bytes for schedule in (self.schedule, *self.beside))
        return self.schedule.bytes * self.sharing


@dataclass(frozen=True, slots=True)
class OnChip:
    """The result of lowering and compiling one launch for several chips.

    `problem` is the exception if tracing for a TPU or Mosaic's lowering failed. Otherwise there is
    a prediction for each kernel on each chip. `collectives` are those around the kernels; `cuts`
    has for each input its parts on a mesh, None if unknown.
    """

    problem: Problem | None = None
    predictions: tuple[Prediction, ...] = ()
    collectives: tuple[Collective, ...] = ()
    cuts: tuple[Cut | None, ...] = ()

    @property
    def unsupported(self) -> bool:
        """Whether this version of jax lacks internals that lowering needs."""
        return self.problem is not None and self.problem.kind == "UnsupportedJax"

    def on(self, chip: str) -> tuple[Prediction, ...]:
        """The launch's kernels on one chip, in program order."""
        return tuple(p for p in self.predictions if p.chip == chip)

    @property
    def not_compiled(self) -> tuple[Prediction, ...]:
        """The kernels that the compiler has neither accepted nor refused."""
        return tuple(p for p in self.predictions if not p.compiled and p.failure is None)


def routes_of_kernels(kernels: Sequence[Prediction]) -> tuple[Route, ...] | None:
    """The routes of all bytes that these kernels send, each once; None if unknown."""
    count = Counter[tuple[tuple[str, int], ...]]()
    for kernel in kernels:
        if kernel.routes is None or kernel.runs.untold:
            return None
        for route in kernel.routes:
            count[route.steps] += route.bytes * kernel.runs.times
    return tuple(Route(steps, size) for steps, size in sorted(count.items()))


class Bound(enum.Enum):
    """The resource that bounds a kernel's time."""

    HBM = "HBM"
    MXU = "MXU"
    XLU = "XLU"
    EUP = "EUP"
    VPU = "VPU"
    VMEM = "loads and stores"
    SCALAR = "the scalar core"
    LATENCY = "DMA latency"
    LAUNCH = "its launch"


@dataclass(frozen=True, slots=True)
class Roofline:
    """The breakdown of one kernel's time, in seconds.

    `memory` is the time of its `bytes` at HBM's full `bandwidth`. `units` is the issue time by
    unit, busiest first; together with `waiting` and `launch` it adds up to `total`.
    """

    total: float
    bytes: int
    bandwidth: float
    units: tuple[tuple[Unit, float], ...]
    waiting: float
    launch: float = 0.0

    @property
    def memory(self) -> float:
        """Seconds for the bytes alone."""
        return self.bytes / self.bandwidth

    @property
    def issue(self) -> float:
        """Seconds in which bundles are issued."""
        return self.total - self.waiting - self.launch

    @property
    def bound(self) -> Bound:
        """The bound, by the rule in the module's docstring."""
        if self.launch > self.total / 2:
            return Bound.LAUNCH
        if self.memory >= self.issue:
            return Bound.HBM if self.memory >= self.total / 2 else Bound.LATENCY
        busiest, taken = self.units[0]
        return Bound.LATENCY if self.waiting > taken else Bound[busiest.name]

    @property
    def why(self) -> str:
        """The numbers behind the bound, in one sentence."""
        moved = f"{format_bytes(self.bytes)} at {self.bandwidth / 1e9:.0f} GB/s take"
        moving = f"{moved} {format_time(self.memory)}, {self.memory / self.total:.0%} of the time"
        if self.bound is Bound.HBM:
            return moving
        if self.bound is Bound.LAUNCH:
            return (
                f"it takes {format_time(self.launch)}, {self.launch / self.total:.0%} of the time"
            )
        if self.bound is Bound.LATENCY:
            return f"{self.waiting / self.total:.0%} of the time is spent waiting; {moving}"
        _, taken = self.units[0]
        issuing = (
            f"issuing instructions takes {format_time(self.issue)}, {self.issue / self.total:.0%}"
        )
        return f"{issuing} of the time, and this unit needs {format_time(taken)} of it; {moving}"


def roofline(kernel: Prediction) -> Roofline | None:
    """The breakdown of one kernel's time; None without a schedule."""
    schedule = kernel.schedule
    if schedule is None or not schedule.cycles:
        return None
    chip = named(kernel.chip)
    seconds_by_unit = ((unit, schedule.busy.get(unit.value, 0) / chip.clock) for unit in Unit)
    return Roofline(
        total=schedule.cycles / chip.clock + chip.launch,
        bytes=schedule.bytes,
        bandwidth=kernel.bandwidth,
        units=tuple(
            sorted((pair for pair in seconds_by_unit if pair[1]), key=lambda pair: -pair[1])
        ),
        waiting=schedule.stalled / chip.clock,
        launch=chip.launch,
    )
