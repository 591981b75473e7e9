"""Predictions: lowering, compiling, traffic and schedule together.

    >>> from pallascope.tpu import predictions
    >>> (kernel,) = predictions(matmul, x, y, chip="v5e", bm=128)
    >>> kernel.seconds, kernel.traffic.bytes, kernel.vmem.used

Works on any function with a `pallas_call` or a `pl.kernel`. Nothing is run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pallascope.model import (
    Axes,
    KernelCall,
    Operand,
    Role,
)
from pallascope.tpu import compile_process, compiler, libtpu
from pallascope.tpu.block_sizes import blocks_outside, reuse
from pallascope.tpu.chips import DEFAULT, Chip, named
from pallascope.tpu.dma_buffers import with_scheduled_dma
from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind, windows_too_large
from pallascope.tpu.prediction import MeanRun, Prediction
from pallascope.tpu.schedule import (
    NotUnderstood,
    OperandSource,
    Schedule,
    simulate,
    smem_words,
)
from pallascope.tpu.traffic import Traffic, traffic
from pallascope.tpu.vmem import certainly_overflows, limit_of

if TYPE_CHECKING:
    import numpy as np

    from pallascope.kernels import TracedLaunch
    from pallascope.kernels.lowering import TracedKernel
    from pallascope.kernels.manual_dma import Dmas

    Builder = Callable[[TracedKernel, Chip], compiler.Build]


T = TypeVar("T")
#: If a loop changes a kernel's tables, no more runs than these are simulated.
MOST_TURNS = 64
#: For a kernel that communicates: its schedule waits for other chips.
COMMUNICATES = "it communicates with other chips, and the time for that isn't predicted"


def predictions(
    function: Callable[..., Any], *args: Any, chip: str = DEFAULT, events: int = 0, **kwargs: Any
) -> tuple[Prediction, ...]:
    """A prediction for each kernel that `function(*args, **kwargs)` launches.

    XLA removes a kernel if nothing uses its results or another kernel does the same; it gets no
    prediction. A kernel in a loop around it (`lax.scan`, `lax.fori_loop`) counts once for each
    iteration: see `Prediction.runs`.

    `args` are arrays, or `jax.ShapeDtypeStruct`s if the contents don't matter. `events` is the
    number of single transfers and stalls that a schedule keeps. Raises ValueError for an unknown
    chip, and any error of tracing or Mosaic's lowering.

    The compiler runs in a separate process, whatever this process has done with jax.
    """
    from pallascope.kernels import TracedLaunch, for_chip

    target = named(chip)
    compile_process.start()
    with for_chip(target.kind, target.cores):
        launch = TracedLaunch.of(function, args, kwargs)
    return predictions_by_child(launch, args, chip, events)


def predictions_by_child(
    launch: TracedLaunch, args: Sequence[Any], chip: str, events: int = 0, axes: Axes = ()
) -> tuple[Prediction, ...]:
    """The same for a launch that was traced for the chip of this name, or for a mesh of these
    `axes`; a separate process compiles."""
    return _predicted(launch, args, named(chip), events, compile_process.build, axes)


def predictions_of_launch(
    launch: TracedLaunch, args: Sequence[Any], chip: str, events: int = 0, axes: Axes = ()
) -> tuple[Prediction, ...]:
    """The same; compiles in this process. Raises NotLowered.

    The process must not have used jax before: libtpu is loaded here, and if it
    aborts, this process ends.
    """
    target = named(chip)
    _load_libtpu_first(target)
    return _predicted(launch, args, target, events, compiler.build, axes)


def _predicted(
    launch: TracedLaunch,
    args: Sequence[Any],
    target: Chip,
    events: int,
    build: Builder,
    axes: Axes = (),
) -> tuple[Prediction, ...]:
    from pallascope.kernels.lowering import for_chip, lower

    with for_chip(target.kind, target.cores, axes):
        kernels = launch.kernels(args)
        for kernel in kernels:
            if kernel.axes or not kernel.call.unknown:
                lower(kernel)
    return tuple(_predict_turns(kernel, target, events, build) for kernel in kernels)


def _load_libtpu_first(chip: Chip) -> None:
    """Load libtpu with `libtpu`'s settings, before jax loads it in search of a TPU."""
    with contextlib.suppress(compiler.CompilerUnavailable):
        libtpu.device(chip)


def _predict_turns(kernel: TracedKernel, chip: Chip, events: int, build: Builder) -> Prediction:
    """Predict one kernel; if a loop changes its tables, each of its runs. It is compiled once."""
    if not kernel.turns:
        return predict(kernel, chip, events, build)
    builds: list[compiler.Build] = []

    def build_once(kernel: TracedKernel, chip: Chip) -> compiler.Build:
        builds.extend([] if builds else [build(kernel, chip)])
        return builds[0]

    longest: Prediction | None = None
    outside: dict[str, None] = {}
    cycles = size = 0.0
    turns = Counter(map(_Values, _spread(kernel.turns, MOST_TURNS)))
    for values, count in turns.items():
        once = dataclasses.replace(kernel, values=values.values, turns=())
        found = predict(once, chip, events, build_once)
        if found.schedule is None:
            return found
        cycles += count * found.schedule.cycles
        size += count * found.bytes_of_a_run
        outside |= dict.fromkeys(found.outside)
        if longest is None or longest.cycles < found.cycles:
            longest = found
    assert longest
    if len(turns) == 1:
        return longest
    mean = MeanRun(cycles / turns.total(), size / turns.total())
    return dataclasses.replace(longest, mean=mean, outside=tuple(outside))


@dataclasses.dataclass(frozen=True, slots=True)
class _Values:
    """A kernel's values in one run; equal if their contents are."""

    values: tuple[np.ndarray | None, ...]

    def _key(self) -> tuple[bytes | None, ...]:
        return tuple(None if value is None else value.tobytes() for value in self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Values) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _spread(turns: Sequence[T], most: int) -> list[T]:
    """All turns, or this many, evenly spread."""
    count = min(len(turns), most)
    return [turns[number * len(turns) // count] for number in range(count)]


def predict(kernel: TracedKernel, chip: Chip, events: int, build: Builder) -> Prediction:
    """Predict one kernel, which was traced for this chip; `build` calls the compiler."""
    blocks = kernel.block_positions()
    copies = kernel.copies()
    moved = traffic(kernel.call, blocks.grid, blocks.starts, blocks.unknown, copies)
    labels = distinct_names(kernel.call.operands)
    # If the grid is only partly known, no operand has starts.
    grid = [size or 0 for size in blocks.grid]
    kept = tuple(
        None if starts is None or not len(starts) else reuse(grid, starts)
        for starts in blocks.starts
    )

    outside = blocks_outside(kernel.call, labels, grid, blocks.starts)

    def prediction(**found: Any) -> Prediction:
        return Prediction(
            chip.name,
            kernel.call,
            labels,
            moved,
            kept,
            runs=kernel.runs,
            outside=outside,
            copied=kernel.copied,
            sent=_sent(copies, grid),
            routes=copies.routes,
            covered=copies.covered,
            **found,
        )

    if kernel.call.unknown and not kernel.axes:
        return prediction(unknown=kernel.call.unknown)
    if failure := _too_many_cores(kernel.call, chip):
        return prediction(failure=failure)
    try:
        build_result = build(kernel, chip)
    except compiler.CompilerUnavailable as error:
        if certainly_overflows(kernel.call, chip):
            return prediction(failure=windows_too_large(kernel.call, limit_of(kernel.call, chip)))
        return prediction(unknown=str(error))
    if build_result.failure:
        return prediction(failure=build_result.failure)
    if empty := _empty_axes(kernel.call):
        return prediction(compiled=True, unknown=empty)
    if build_result.missing:
        return prediction(compiled=True, unknown=build_result.missing)
    if kernel.axes:
        return prediction(compiled=True, unknown=COMMUNICATES, vmem=build_result.vmem)
    shared = chip.cores if _is_split(kernel.call) else 1
    core = dataclasses.replace(chip, bandwidth=chip.bandwidth_of_each(shared))
    try:
        arguments = build_result.bundles, core, _sources(kernel, labels), _words(kernel), events
        # libtpu gives the first core the largest part of a grid; in a mesh, the body chooses.
        cores = range(kernel.call.cores)
        schedules = [simulate(*arguments, core=number, grid=grid) for number in cores]
    except NotUnderstood as reason:
        return prediction(compiled=True, unknown=str(reason), vmem=build_result.vmem)
    schedule, *beside = sorted(schedules, key=lambda one: -one.cycles)
    if shared > 1:
        of_cores = {"sharing": shared, "beside": tuple(beside)}
        return prediction(compiled=True, schedule=schedule, vmem=build_result.vmem, **of_cores)
    if contradiction := _contradiction(moved, labels, schedule):
        return prediction(compiled=True, unknown=contradiction, vmem=build_result.vmem)
    moved = with_scheduled_dma(moved, labels, schedule)
    return prediction(compiled=True, schedule=schedule, vmem=build_result.vmem)


def _sent(copies: Dmas, grid: Sequence[int]) -> int | None:
    """The bytes that a chip sends to others in one run; None if unknown."""
    if copies.sent is None or not copies.each_step:
        return copies.sent
    return copies.sent * math.prod(grid)


def _empty_axes(call: KernelCall) -> str:
    """The reason if no step of a grid can run; XLA may remove such a kernel."""
    empty = [str(axis) for axis, size in enumerate(call.grid) if size == 0]
    if not empty:
        return ""
    sizes = ", ".join("?" if size is None else str(size) for size in call.grid)
    grid = f"({sizes},)" if len(call.grid) == 1 else f"({sizes})"
    axes = f"axis {empty[0]} has" if len(empty) == 1 else f"axes {' and '.join(empty)} have"
    return f"its grid {grid} is empty, so nothing runs: {axes} 0 steps"


def _is_split(call: KernelCall) -> bool:
    """Whether cores can share the work: a parallel axis of one step stays on one core."""
    return any(call.grid[axis] != 1 for axis in call.parallel)


def _too_many_cores(call: KernelCall, chip: Chip) -> LibtpuRefusal | None:
    """The error if a mesh has more cores than the chip; libtpu would run their parts in turn."""
    if call.cores <= chip.cores:
        return None
    has = f"{chip.cores} TensorCore{'s' * (chip.cores > 1)}"
    message = f"its mesh asks for {call.cores} TensorCores, and a {chip.name} has {has}"
    return LibtpuRefusal(LibtpuRefusalKind.CORES, message, message)


def distinct_names(operands: tuple[Operand, ...]) -> tuple[str, ...]:
    """Distinct names: a kernel with *refs gives all of its operands the same name."""
    count = Counter(operand.name for operand in operands)
    seen: Counter[str] = Counter()
    labels = []
    for operand in operands:
        number = seen[operand.name]
        seen[operand.name] += 1
        labels.append(f"{operand.name}[{number}]" if count[operand.name] > 1 else operand.name)
    return tuple(labels)


def _sources(kernel: TracedKernel, labels: tuple[str, ...]) -> dict[OperandSource, str]:
    """The operands by the schedule's numbers: grid sizes, inputs, then outputs, numbered on."""
    operands = zip(kernel.call.operands, labels, strict=True)
    passed = [label for operand, label in operands if operand.role is not Role.SCRATCH]
    first = kernel.call.grid.count(None)
    arguments = len(kernel.arguments)
    named_ = {OperandSource("input", n): f"the size of grid axis {n}" for n in range(first)}
    for number, label in enumerate(passed, first):
        named_[OperandSource("input" if number < arguments else "output", number)] = label
    return named_


def _words(kernel: TracedKernel) -> dict[OperandSource, list[int]]:
    return {
        OperandSource("input", number): smem_words(value)
        for number, value in enumerate(kernel.values)
        if value is not None
    }


def _contradiction(moved: Traffic, labels: tuple[str, ...], schedule: Schedule) -> str:
    """The first operand for which the schedule's bytes differ from the index map's; one is misread.

    Manual DMA has no index map; for it, the schedule knows more than the trace.
    """
    scheduled = {(one.operand, one.inward): one.size for one in schedule.moved}
    for row, label in zip(moved.operands, labels, strict=True):
        if row.bytes is None or row.role is Role.SCRATCH or row.by_hand:
            continue
        scheduled_bytes = scheduled.get((label, row.role is not Role.OUTPUT), 0)
        if scheduled_bytes != row.bytes:
            return (
                f"the compiler's schedule moves {scheduled_bytes:,} bytes of {label}, "
                f"its index map asks for {row.bytes:,}"
            )
    return ""
