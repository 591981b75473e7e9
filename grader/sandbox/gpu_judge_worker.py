"""The same worker's answers about launches for GPUs.

A GPU need not be there: it is interpreted on the CPU. The processes that do this have never
imported a learner's file.
"""

from __future__ import annotations

import contextlib
import dataclasses

from grader.exercise.specs import trace_argument
from grader.sandbox import exception_reports
from grader.sandbox.exception_reports import notes_on
from grader.sandbox.messages import (
    CompileForGpu,
    ReadTrace,
    RunResult,
    RunTrace,
)
from pallascope.gpu import Compiled, NotInstalled
from pallascope.gpu.gpu_compile_errors import GpuRefusalKind, read_refusal
from pallascope.gpu.gpu_compile_process import compiled
from pallascope.gpu.gpu_interpreter import run_interpreted
from pallascope.gpu.gpu_programs import program_of, traced_for
from pallascope.gpu.gpu_resources import SharedBuffer, buffers_of
from pallascope.gpu.gpus import named
from pallascope.gpu.thread_block import disorders
from pallascope.kernels import TracedLaunch
from pallascope.kernels.calls import called_as_written
from pallascope.kernels.serialization import make_ready_for_gpus
from pallascope.model import (
    Array,
    ArrayType,
    OnGpu,
    Stage,
    Trace,
)
from pallascope.tools import arrays, codec


def answer(question: ReadTrace | RunTrace | CompileForGpu) -> RunResult | OnGpu:
    """Answer a question about a launch for a GPU. Raises ImportError where absl-py is missing."""
    make_ready_for_gpus()
    match question:
        case CompileForGpu():
            return _compiled(question)
        case RunTrace():
            return _ran(question)
        case ReadTrace():
            return _read(question)


def _launch(question: ReadTrace | RunTrace | CompileForGpu) -> TracedLaunch:
    """The launch that a question is about. Raises CarrierError where it takes other inputs."""
    launch = TracedLaunch.carried(question.trace)
    launch.demand_inputs([ArrayType(array.dtype, array.shape) for array in question.inputs])
    return launch


def _traced(question: ReadTrace | RunTrace) -> tuple[TracedLaunch, Trace]:
    launch = _launch(question)
    trace = launch.trace(question.source.file, f"{question.name}_spec")
    notes = (*trace.notes, *notes_on(question.source))
    text = question.source.content.decode(errors="replace")
    calls = tuple(called_as_written(call, text, f"{question.name}_kernel") for call in trace.calls)
    return launch, dataclasses.replace(trace, notes=notes, calls=calls)


def _read(question: ReadTrace) -> RunResult:
    with (
        exception_reports.caught(question.source, Stage.TRACE) as caught,
        traced_for(named(question.gpu)),
    ):
        launch, trace = _traced(question)
        faults = disorders(launch.closed, question.source) if question.followed else ()
        return RunResult(None, trace, gpu_faults=faults)
    return RunResult(caught.problem)


def _ran(question: RunTrace) -> RunResult:
    values = list(map(arrays.to_numpy, question.inputs))
    with traced_for(named(question.gpu)):
        with exception_reports.caught(question.source, Stage.TRACE) as caught:
            launch, trace = _traced(question)
            faults = disorders(launch.closed, question.source, values)
        if caught.problem:
            return RunResult(caught.problem)
        if faults:  # they are told, whatever comes of it, and it may never end
            return RunResult(None, trace, gpu_faults=faults)
        races: list[str] = []
        outputs: tuple[Array, ...] = ()
        with exception_reports.caught(question.source, Stage.RUN) as caught:
            outputs = tuple(map(arrays.from_numpy, run_interpreted(launch, values, races)))
        return RunResult(caught.problem, trace, outputs, tuple(races))


def _compiled(question: CompileForGpu) -> OnGpu:
    """The way to a GPU, as far as it leads."""
    chip = named(question.gpu)
    with exception_reports.caught(question.source, Stage.LOWER) as caught:
        with traced_for(chip):
            launch = _launch(question)
        function = launch.function()
        shapes = list(map(trace_argument, question.inputs))
        try:
            program = program_of(function, shapes, chip)
        except Exception as error:
            failure = read_refusal(error)
            buffers: tuple[SharedBuffer, ...] = ()
            if failure.kind is GpuRefusalKind.SHARED_MEMORY:
                with contextlib.suppress(Exception), traced_for(chip):
                    buffers = buffers_of(function, shapes)
            refused = codec.pack(Compiled(chip.name, failure=failure))
            return OnGpu(
                chip.name, compiled=refused, buffers=tuple((str(b), b.size) for b in buffers)
            )
        lowered = OnGpu(chip.name, lowered=True, program=codec.pack(program))
        if not question.compiled:
            return dataclasses.replace(lowered, not_compiled="not asked for")
        try:
            made = codec.pack(compiled(program, chip))
            return dataclasses.replace(lowered, compiled=made)
        except NotInstalled as missing:
            return dataclasses.replace(lowered, not_compiled=str(missing))
    return OnGpu(chip.name, caught.problem)
