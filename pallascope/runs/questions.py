"""Questions about traced launches and their answers, as data.

A launch goes from process to process as the bytes of its trace, never as code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pallascope.model import (
    Array,
    Axes,
    BlockSample,
    Clues,
    DeviceFault,
    DmaFault,
    GpuFault,
    Mode,
    Problem,
    Repaired,
    SameSeeds,
    SourceFile,
    Trace,
    UnwrittenUse,
)
from pallascope.tpu import OnChip
from pallascope.tpu.pipeline_steps import LaunchMotion

#: Characters of an exception's class and text. pytest's process searches both for patterns, and for
#: some patterns the time grows with the square of the length.
KIND_LIMIT, MESSAGE_LIMIT = 500, 4_000


@dataclass(frozen=True, slots=True)
class TargetDevice:
    """The chip that a launch is traced for, or a `mesh` of such chips. `target`: "tpu" or "gpu"."""

    chip: str
    target: str = "tpu"
    mesh: Axes = ()


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """A question about the trace of a launch; `source` is the file that the launch comes from."""

    source: SourceFile
    trace: bytes
    inputs: tuple[Array, ...]
    device: TargetDevice


@dataclass(frozen=True, slots=True)
class ReadTrace(TraceQuestion):
    """Read the trace of the launch `name` without running it.

    If `followed`, also look for accesses in a wrong order. This is for launches for GPUs. If the
    input number `seed` determines all randomness, also compare the seeds of all grid steps; up to
    `alike` results are drawn with the same bits.
    """

    name: str
    followed: bool = False
    seed: int | None = None
    alike: int = 1


@dataclass(frozen=True, slots=True)
class RunTrace(TraceQuestion):
    """Read the trace, and run it in this mode; the simulated `cores` share its steps.

    Copies that the kernel starts by hand happen at their wait or, if `eager`, at their start. A
    launch for a GPU runs in Mosaic GPU's interpreter in every mode. If `again`, it also runs with
    other contents of unwritten memory, which must not change the results. Without `races`, none is
    found, and a long loop takes a third of the time. Without `bounds`, reads out of bounds give
    unwritten memory; stores out of bounds are still errors.
    """

    name: str
    mode: Mode
    seed: int
    cores: int = 2
    eager: bool = False
    again: bool = False
    races: bool = True
    bounds: bool = True


@dataclass(frozen=True, slots=True)
class InvestigateRun(TraceQuestion):
    """Look for the cause of a wrong result: the clues that come from the trace.

    `with_zeros`, also by a run with zeros in unwritten memory; `infinite`, by one that finds the
    operations that make infinity.
    """

    mode: Mode
    seed: int
    with_zeros: bool
    eager: bool = False
    infinite: bool = False


@dataclass(frozen=True, slots=True)
class RepairRun(TraceQuestion):
    """Run the launch with single operations of its kernels changed, until it has the `expected`
    results.

    If there is a `change`, with its line, it is the only one that is made.
    """

    mode: Mode
    seed: int
    expected: tuple[Array, ...]
    eager: bool = False
    change: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Predict(TraceQuestion):
    """Lower the launch, compile it and simulate it; keep `events` single transfers and stalls."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class CompileForGpu(TraceQuestion):
    """Lower the launch for a GPU; if `compiled`, also compile it."""

    compiled: bool = True


@dataclass(frozen=True, slots=True)
class FollowBlocks(TraceQuestion):
    """Find the positions of the launch's blocks, step by step."""


@dataclass(frozen=True, slots=True)
class SampleBlocks(TraceQuestion):
    """Compute a few blocks of the results, at a size at which the launch isn't run.

    Inputs without contents repeat the values in `contents`, which aligns with `inputs`. At least
    the blocks of `targets` elements are computed.
    """

    contents: tuple[Array, ...]
    seed: int
    targets: int


@dataclass(frozen=True, slots=True)
class Warm:
    """Trace a dummy kernel, run it in this mode, and compile it for these chips.

    After that, the process has done everything that is slow the first time. Unless `compiles`, the
    compiler is only loaded.
    """

    mode: Mode | None = None
    chips: tuple[str, ...] = ()
    compiles: bool = True
    source: SourceFile = field(default_factory=lambda: SourceFile("", b""))


@dataclass(frozen=True, slots=True)
class RunResult:
    """The data of a trace and, if it was run, the result of the run."""

    problem: Problem | None = None
    trace: Trace | None = None
    outputs: tuple[Array, ...] = ()
    complaints: tuple[str, ...] = ()
    printed: str = ""
    copy_faults: tuple[DmaFault, ...] = ()
    device_faults: tuple[DeviceFault, ...] = ()
    gpu_faults: tuple[GpuFault, ...] = ()
    unwritten: UnwrittenUse | None = None
    same_seeds: SameSeeds | None = None


@dataclass(frozen=True, slots=True)
class Warmed:
    """The dummy kernel has run, and is compiled."""


LaunchQuestion = (
    ReadTrace | RunTrace | InvestigateRun | RepairRun | Predict | FollowBlocks | SampleBlocks | Warm
)
LaunchAnswer = RunResult | Clues | Repaired | OnChip | LaunchMotion | BlockSample | Warmed | Problem
