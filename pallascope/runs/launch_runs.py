"""Runs, lowers and compiles traced launches for TPUs; clues on wrong results, single repairs.

The process needs no file of the launch: the same trace is run and compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend import core

from pallascope.gpu.gpus import named as gpu_named
from pallascope.gpu.gpus import traced_for
from pallascope.kernels import (
    CopiesDiffer,
    CopyWatch,
    DeviceFaultLog,
    TracedLaunch,
    UnwrittenMemory,
    for_chip,
    noting_nonfinite,
    overhangs,
    running,
    watching,
    watching_copies,
    watching_devices,
)
from pallascope.kernels.cpu_runs import NotTried
from pallascope.kernels.edges_of_mosaic import DIFFERENCES, noting_broken_promises
from pallascope.kernels.lints import notes_on
from pallascope.kernels.serialization import make_ready_for_gpus
from pallascope.kernels.source_lines import Source, line_of
from pallascope.model import (
    BROKEN_PROMISE,
    Array,
    ArrayType,
    BlockSample,
    Clues,
    Mode,
    Problem,
    Repaired,
    Role,
    SourceFile,
    Stage,
    Trace,
    UnwrittenUse,
)
from pallascope.runs import exception_reports, warmup
from pallascope.runs.questions import (
    FollowBlocks,
    InvestigateRun,
    LaunchAnswer,
    Predict,
    ReadTrace,
    RepairRun,
    RunResult,
    RunTrace,
    SampleBlocks,
    TargetDevice,
    TraceQuestion,
    Warm,
    Warmed,
)
from pallascope.tools import arrays
from pallascope.tools.arrays import dtype_of, from_numpy, holds_nan, similar, to_numpy
from pallascope.tools.regions import RegionError, regions
from pallascope.tpu import OnChip
from pallascope.tpu.chips import named as tpu_named
from pallascope.tpu.pipeline_steps import LaunchMotion, motions_of_launch
from pallascope.tpu.predict import predictions_of_launch


def _on_tpu(device: TargetDevice) -> contextlib.AbstractContextManager[None]:
    chip = tpu_named(device.chip)
    return for_chip(chip.kind, chip.cores, device.mesh)


def _on_gpu(device: TargetDevice) -> contextlib.AbstractContextManager[None]:
    make_ready_for_gpus()
    return traced_for(gpu_named(device.chip))


#: By target: a context in which jax finds such a device.
TRACED_ON = {"tpu": _on_tpu, "gpu": _on_gpu}


def traced_on(device: TargetDevice) -> contextlib.AbstractContextManager[None]:
    """A context for tracing launches, and reading traces, as on a device."""
    return TRACED_ON[device.target](device)


def trace_argument(array: Array) -> Any:
    """An argument for tracing a launch: an array, or its shape and dtype if it has no contents."""
    if array.data or 0 in array.shape:
        return to_numpy(array)
    return jax.ShapeDtypeStruct(array.shape, dtype_of(array.dtype))


def answer(question: object) -> LaunchAnswer:
    """Answer a question about a trace. Raises TypeError for any other."""
    match question:
        case ReadTrace():
            return _read(question)
        case RunTrace():
            return _ran(question)
        case InvestigateRun():
            return _looked(question)
        case RepairRun():
            return _repaired(question)
        case Predict():
            return _predicted(question)
        case FollowBlocks():
            return _followed(question)
        case SampleBlocks():
            return _sampled(question)
        case Warm():
            return _warm(question)
    raise TypeError(f"no launch is run by a question {type(question).__name__}")


def _surroundings(question: TraceQuestion) -> contextlib.AbstractContextManager[None]:
    """A context with the chip that the launch was traced for, unless it runs on a real one."""
    runs = isinstance(question, RunTrace | InvestigateRun | RepairRun)
    if runs and _mode(question) is Mode.COMPILED:
        return contextlib.nullcontext()
    return traced_on(question.device)


def _mode(question: RunTrace | InvestigateRun | RepairRun) -> Mode:
    """The mode in which a launch runs. Several devices always run in the strict interpreter.

    The plain interpreter can't copy between devices.
    """
    return Mode.STRICT if question.device.mesh else question.mode


def launch_of(question: TraceQuestion) -> TracedLaunch:
    """The launch that a question is about. Raises SerializationError if it takes other inputs."""
    launch = TracedLaunch.carried(question.trace)
    launch.demand_inputs([ArrayType(array.dtype, array.shape) for array in question.inputs])
    return launch


def launch_and_trace(question: ReadTrace | RunTrace) -> tuple[TracedLaunch, Trace]:
    """A launch and the data of its trace. Raises SerializationError and JAX's exceptions."""
    launch = launch_of(question)
    spec = f"{question.name}_spec"
    trace = launch.trace(question.source.file, spec, question.source.lines_of(spec))
    notes = (*trace.notes, *notes_on(question.source))
    return launch, dataclasses.replace(trace, notes=notes)


def _read(question: ReadTrace) -> RunResult:
    with _surroundings(question), exception_reports.caught(question.source, Stage.TRACE) as caught:
        launch, trace = launch_and_trace(question)
        same = None
        if question.seed is not None:
            values = list(map(trace_argument, question.inputs))
            same = launch.same_seeds(values, question.seed, question.alike)
        return RunResult(None, trace, same_seeds=same)
    return RunResult(caught.problem)


def _ran(question: RunTrace) -> RunResult:
    """The run; if it raises, a run on one core, in which always the same step fails first.

    With two cores, the first that fails stops the other, so the failing step varies.
    """
    result = _run(question)
    raised = result.problem and result.problem.stage is Stage.RUN
    if raised and question.cores > 1 and not question.device.mesh:
        alone = _run(dataclasses.replace(question, cores=1))
        if alone.problem and _without_numbers(alone) == _without_numbers(result):
            return alone
    return result


def _without_numbers(result: RunResult) -> tuple[str, str] | None:
    problem = result.problem
    return problem and (problem.kind, re.sub(r"\d+", "", problem.message))


class _BrokenPromises:
    """The indices in lines of a file for which `pl.multiple_of` isn't true."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: set[tuple[int, int, int]] = set()  # line, index, multiple

    @property
    def complaints(self) -> tuple[str, ...]:
        """One about the lowest index of the first line: the run notes them in any order."""
        for line, index, multiple in sorted(self._found)[:1]:
            where = f" in line {line}" if line else ""
            said = f"pl.multiple_of{where} says that {index:,} is a multiple of {multiple}."
            return (f"{BROKEN_PROMISE}: {said}",)
        return ()

    def note(self, index: int, multiple: int, eqn: core.JaxprEqn) -> None:
        self._found.add((line_of(eqn.source_info, self._file), index, multiple))


def _run(question: RunTrace) -> RunResult:
    values = list(map(arrays.to_numpy, question.inputs))
    with _surroundings(question):
        with exception_reports.caught(question.source, Stage.TRACE) as caught:
            launch, trace = launch_and_trace(question)
        if caught.problem:
            return RunResult(caught.problem)
        result = None
        memory = UnwrittenMemory()
        copies = CopyWatch(question.source)
        device_log = DeviceFaultLog(question.source, question.device.mesh)
        promises = _BrokenPromises(question.source.file)
        with (
            watching() as watch,
            noting_broken_promises(promises.note),
            watching_devices(device_log) if question.device.mesh else contextlib.nullcontext(),
            exception_reports.caught(question.source, Stage.RUN) as caught,
            watching_copies(copies),
        ):
            mode, axes = _mode(question), question.device.mesh
            with running(
                mode,
                question.seed,
                memory,
                cores=question.cores,
                eager=question.eager,
                races=question.races,
                bounds=question.bounds,
            ) as interpret:
                program = launch.compiled(values, interpret, axes)
                try:
                    results = program(values)
                except CopiesDiffer as differ:
                    device_log.faults.append(differ.fault)
                    raise
                if axes:
                    device_log.finish()
                for over in watch.left_over if axes else ():
                    device_log.left(over)
                result = RunResult(
                    None,
                    trace,
                    tuple(map(arrays.from_numpy, results)),
                    (*watch.complaints, *promises.complaints),
                    copy_faults=tuple(copies.faults),
                    device_faults=tuple(device_log.faults),
                )
                if mode is Mode.STRICT:
                    again = RunAgain(question, memory, lambda: program(values), copies.finish)
                    result = dataclasses.replace(result, unwritten=again.difference(result.outputs))
        if result and not caught.problem:
            return result
        for over in watch.left_over if question.device.mesh else ():
            device_log.left(over)
        return RunResult(
            caught.problem,
            trace,
            complaints=(*watch.complaints, *promises.complaints),
            copy_faults=tuple(copies.faults),
            device_faults=tuple(device_log.faults),
        )


@dataclass(frozen=True, slots=True)
class RunAgain:
    """A compiled launch that runs again, with other contents of unwritten memory.

    `cleanup` is called after a run that raised.
    """

    question: RunTrace
    memory: UnwrittenMemory
    program: Callable[[], list[np.ndarray]]
    cleanup: Callable[[], None] = lambda: None

    def difference(self, outputs: tuple[Array, ...]) -> UnwrittenUse | None:
        """How the results differ from `outputs`; None if they don't, or if it isn't asked.

        Integers are zero in every second hidden case, which a flag or a counter may well be.
        If they do, it runs once for each buffer: the cause are those whose contents change the
        results by themselves, or without which the others change nothing.
        """
        if not self.question.again:
            return None
        names, zeros = self.memory.names, self.question.eager
        if use := self._tried(outputs, names, zeros):
            alone = [name for name in names if self._tried(outputs, (name,), zeros)]
            needed = (name for name in names if not self._tried(outputs, {*names} - {name}, zeros))
            return dataclasses.replace(use, buffers=tuple(alone or needed))
        return None

    def _tried(
        self, outputs: tuple[Array, ...], buffers: Collection[str], zeros: bool
    ) -> UnwrittenUse | None:
        source, seed = self.question.source, self.question.seed
        with exception_reports.caught(source, Stage.RUN) as caught:
            with self.memory.drawn(seed, buffers, zeros):
                results = map(arrays.from_numpy, self.program())
            for number, (before, now) in enumerate(zip(outputs, results, strict=True)):
                if before.data == now.data:
                    continue
                one, other = map(arrays.in_float64, (before, now))
                if (differs := ~((one == other) | (np.isnan(one) & np.isnan(other)))).any():
                    index = tuple(map(int, np.argwhere(differs)[0]))
                    values = float(one[index]), float(other[index])
                    return UnwrittenUse((), number, index, values)
            return None
        self.cleanup()
        return UnwrittenUse(problem=caught.problem)


def _looked(question: InvestigateRun) -> Clues:
    """The clues about a wrong result; those that can't be found stay empty."""
    values = list(map(arrays.to_numpy, question.inputs))
    walk, with_zeros, padding, edge, finite, nonfinite_by = None, (), None, ("", ()), (), ()
    with _surroundings(question):
        launch = launch_of(question)
        with exception_reports.caught(question.source, Stage.RUN):
            walk = launch.walk(values)
        with exception_reports.caught(question.source, Stage.RUN):
            edge = _edge(launch, question)
        if question.with_zeros and _mode(question) is Mode.STRICT:
            with exception_reports.caught(question.source, Stage.RUN):
                with_zeros = _with_zeros(launch, question, values)
                cleaned = list(map(_finite, values))
                if any(one is not other for one, other in zip(values, cleaned, strict=True)):
                    finite = _with_zeros(launch, question, cleaned)
            if any(map(holds_nan, finite or with_zeros)):
                with exception_reports.caught(question.source, Stage.RUN):
                    nonfinite_by = _nonfinite_by(launch, question, cleaned)
            with exception_reports.caught(question.source, Stage.RUN):
                padding = _padding(launch, question, with_zeros)
        elif question.infinite and _mode(question) is Mode.STRICT:
            with exception_reports.caught(question.source, Stage.RUN):
                nonfinite_by = _nonfinite_by(launch, question, values)
    return Clues(walk, with_zeros, (), padding, *edge, finite, nonfinite_by)


def _nonfinite_by(
    launch: TracedLaunch, question: InvestigateRun, values: list[np.ndarray]
) -> tuple[tuple[str, int], ...]:
    """The operations in kernels that make NaN, or infinity, of other operands, with their lines."""
    found: dict[tuple[str, int], None] = {}

    def note(name: str, eqn: core.JaxprEqn) -> None:
        found[name, line_of(eqn.source_info, question.source.file)] = None

    with noting_nonfinite(note, question.infinite):
        _with_zeros(launch, question, values)
    return tuple(sorted(found, key=lambda each: each[1]))


def _with_zeros(
    launch: TracedLaunch, question: InvestigateRun, values: list[np.ndarray]
) -> tuple[Array, ...]:
    """The results if unwritten memory holds zeros."""
    how = {"eager": question.eager, "axes": question.device.mesh}
    results = launch.run(values, _mode(question), question.seed, "zero", **how)
    return tuple(map(arrays.from_numpy, results))


def _finite(values: np.ndarray) -> np.ndarray:
    """An array with zeros instead of NaN and infinity; the same one if it has none."""
    number = values.astype(np.float64)
    return values if np.isfinite(number).all() else np.where(np.isfinite(number), values, 0)


def _edge(launch: TracedLaunch, question: InvestigateRun) -> tuple[str, tuple[Array, ...]]:
    """The operation whose difference between XLA on the CPU and a TPU changes the results, and the
    results with XLA's; empty if there is none."""
    names = launch.operations_with_edges() if _mode(question) is Mode.STRICT else ()
    values = list(map(arrays.to_numpy, question.inputs))

    def results(as_xla: tuple[str, ...]) -> tuple[Array, ...]:
        how = {"eager": question.eager, "axes": question.device.mesh, "as_xla": as_xla}
        return tuple(map(from_numpy, launch.run(values, Mode.STRICT, question.seed, **how)))

    if not names or (by_xla := results(names)) == (on_tpu := results(())):
        return "", ()
    alone = (name for name in names if len(names) == 1 or results((name,)) != on_tpu)
    name = next(alone, names[0])
    difference = DIFFERENCES[name]
    there = f"{name}: {difference.edge}. On a TPU: {difference.there}."
    return there, by_xla


def _padding(
    launch: TracedLaunch, question: InvestigateRun, with_zeros: tuple[Array, ...]
) -> tuple[str, ...] | None:
    """The inputs whose padding causes NaN where zeros in all unwritten memory cause none.

    None if this is unknown: only in a launch of a single kernel, its inputs can be identified.
    """
    values = list(map(arrays.to_numpy, question.inputs))
    calls = launch.trace(question.source.file).calls
    if len(calls) != 1 or not with_zeros or calls[0].unknown:
        return None
    found: list[str] = []
    for position, operand in enumerate(calls[0].role(Role.INPUT)):
        if not overhangs(operand):
            continue
        results = launch.run(
            *(values, _mode(question), question.seed, "zero", position),
            eager=question.eager,
            axes=question.device.mesh,
        )
        tried = map(arrays.from_numpy, results)
        if any(map(_more_nan, tried, with_zeros)):
            found.append(operand.name)
    return tuple(found)


def _more_nan(tried: Array, without: Array) -> bool:
    one, other = (np.isnan(arrays.in_float64(array)) for array in (tried, without))
    return bool((one & ~other).any())


def _nearly(values: np.ndarray, expected: np.ndarray, times: float = 1.0) -> bool:
    """Whether results are the expected ones, but for rounding; errors may be `times` as large."""
    if expected.dtype.kind in "iub":
        return np.array_equal(values, expected)
    return similar(values, expected, times * (2.0**-8 if values.dtype == np.float32 else 2.0**-5))


#: Results of many terms may be nearly right by chance: then, they have to be nearer.
_NEARLY = (_nearly, partial(_nearly, times=2.0**-3), partial(_nearly, times=2.0**-7))


def _source(question: RepairRun) -> Source:
    """The judged file; its author writes the lines in its regions."""
    text = question.source.content.decode(errors="replace")
    try:
        asked = {line for one in regions(text) for line in range(one.begin, one.end)}
    except RegionError:
        asked = set()
    return Source(question.source.file, text.split("\n"), asked)


def _repaired(question: RepairRun) -> Repaired:
    """The first change of one operation that gives nearly the expected results."""
    values = list(map(arrays.to_numpy, question.inputs))
    expected = list(map(arrays.to_numpy, question.expected))
    how = {"eager": question.eager, "axes": question.device.mesh, "races": False}
    with _surroundings(question):
        launch, file = launch_of(question), question.source.file
        try:
            found = launch.first_repair(
                values, expected, _NEARLY, _source(question), question.change
            )
        except NotTried:
            pass
        else:
            if found is None:
                return Repaired()
            repair, results = found
            return Repaired(repair.change, repair.line, tuple(map(from_numpy, results)))
        for repair in launch.repairs(file):
            if question.change not in (None, (repair.change, repair.line)):
                continue
            with exception_reports.caught(question.source, Stage.RUN), repair.made():
                results = launch.run(values, _mode(question), question.seed, **how)
                if all(map(similar, results, expected)):
                    return Repaired(repair.change, repair.line, tuple(map(from_numpy, results)))
    return Repaired()


def _predicted(question: Predict) -> OnChip:
    """Lower, compile and simulate the launch for a TPU, as far as that works."""
    values = list(map(trace_argument, question.inputs))
    with exception_reports.caught(question.source, Stage.LOWER) as caught, _surroundings(question):
        launch, axes = launch_of(question), question.device.mesh
        predicted = predictions_of_launch(
            launch, values, question.device.chip, question.events, axes
        )
        around = launch.collectives(axes, question.source.file)
        return OnChip(None, predicted, around, launch.cuts(axes))
    return OnChip(caught.problem)


def _followed(question: FollowBlocks) -> LaunchMotion:
    """The positions of the blocks, step by step."""
    values = list(map(trace_argument, question.inputs))
    with exception_reports.caught(question.source, Stage.LOWER) as caught, _surroundings(question):
        launch = launch_of(question)
        return LaunchMotion(
            None, motions_of_launch(launch, values, question.device.chip, question.device.mesh)
        )
    return LaunchMotion(caught.problem)


def _sampled(question: SampleBlocks) -> BlockSample:
    """A few blocks of the results, and the faults of copies, if the launch runs as a whole."""
    copies = CopyWatch(question.source)
    log = DeviceFaultLog(question.source, question.device.mesh)
    meshed = watching_devices(log) if question.device.mesh else contextlib.nullcontext()
    found = BlockSample()
    with (
        exception_reports.caught(question.source, Stage.RUN) as caught,
        _surroundings(question),
        watching_copies(copies),
        meshed,
    ):
        launch = launch_of(question)
        inputs = [
            to_numpy(array) if array.data or 0 in array.shape else (to_numpy(values), array.shape)
            for array, values in zip(question.inputs, question.contents, strict=True)
        ]
        found = launch.block_sample(inputs, question.seed, question.device.mesh, question.targets)
        if question.device.mesh:
            log.finish()
    return dataclasses.replace(
        found,
        problem=caught.problem,
        copy_faults=tuple(copies.faults),
        device_faults=tuple(log.faults),
    )


def _warm(question: Warm) -> Warmed | Problem:
    with exception_reports.caught(SourceFile("", b""), Stage.RUN) as caught:
        if question.mode:
            warmup.run(question.mode)
        (warmup.compile_for if question.compiles else warmup.load_for)(question.chips)
    return caught.problem or Warmed()
