"""The worker that runs, lowers and compiles traces of launches for GPUs, without a GPU.

Traces run in an interpreter on the CPU. The process has never imported a learner's file.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from grader.sandbox.messages import Answer, Question
from pallascope.gpu import Compiled, NotInstalled
from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind, read_refusal
from pallascope.gpu.gpu_compile_process import compiled
from pallascope.gpu.gpu_interpreter import interpreted
from pallascope.gpu.gpu_resources import SharedBuffer, buffers_of
from pallascope.gpu.gpus import named, program_of
from pallascope.gpu.thread_block_hazards import ordering_hazards
from pallascope.kernels import TracedLaunch, UnwrittenMemory
from pallascope.kernels.calls import called_as_written
from pallascope.kernels.jaxprs import equations
from pallascope.kernels.source_lines import line_in
from pallascope.model import (
    GpuHazard,
    OnGpu,
    SourceFile,
    Stage,
    Trace,
)
from pallascope.runs import exception_reports
from pallascope.runs.launch_runs import (
    RunAgain,
    launch_and_trace,
    launch_of,
    trace_argument,
    traced_on,
)
from pallascope.runs.questions import CompileForGpu, ReadTrace, RunResult, RunTrace
from pallascope.tools import arrays, codec


def answer(question: Question) -> Answer:
    """Answer a question about a trace. Raises TypeError for any other."""
    match question:
        case CompileForGpu():
            return _compiled(question)
        case RunTrace():
            return _ran(question)
        case ReadTrace():
            return _read(question)
    raise TypeError(f"the judge of GPU launches got a question {type(question).__name__}")


def _launch_and_trace(question: ReadTrace | RunTrace) -> tuple[TracedLaunch, Trace]:
    """`judge_worker.launch_and_trace`, with the calls as the source file names them."""
    launch, trace = launch_and_trace(question)
    text = question.source.content.decode(errors="replace")
    calls = tuple(called_as_written(call, text, f"{question.name}_kernel") for call in trace.calls)
    return launch, dataclasses.replace(trace, calls=calls)


def _read(question: ReadTrace) -> RunResult:
    with (
        exception_reports.caught(question.source, Stage.TRACE) as caught,
        traced_on(question.device),
    ):
        launch, trace = _launch_and_trace(question)
        faults = ordering_hazards(launch.closed, question.source) if question.followed else ()
        return RunResult(None, trace, gpu_faults=faults)
    return RunResult(caught.problem)


def _ran(question: RunTrace) -> RunResult:
    values = list(map(arrays.to_numpy, question.inputs))
    with traced_on(question.device):
        with exception_reports.caught(question.source, Stage.TRACE) as caught:
            launch, trace = _launch_and_trace(question)
            faults = ordering_hazards(launch.closed, question.source, values)
        if caught.problem:
            return RunResult(caught.problem)
        if any(fault.hazard is not GpuHazard.NOTHING_AHEAD for fault in faults):
            # The verdict is decided, and the run might never end.
            return RunResult(None, trace, gpu_faults=faults)
        races: list[str] = []
        result, memory = None, UnwrittenMemory()
        with (
            exception_reports.caught(question.source, Stage.RUN) as caught,
            interpreted(launch, races, memory) as program,
        ):
            outputs = tuple(map(arrays.from_numpy, program(values)))
            result = RunResult(None, trace, outputs, tuple(races), gpu_faults=faults)
            again = RunAgain(question, memory, lambda: program(values))
            result = dataclasses.replace(result, unwritten=again.difference(outputs))
        if result and not caught.problem:
            return result
        return RunResult(caught.problem, trace, (), tuple(races))


def _compiled(question: CompileForGpu) -> OnGpu:
    """The launch, lowered and, if requested, compiled; or the reason why not."""
    chip = named(question.device.chip)
    with exception_reports.caught(question.source, Stage.LOWER) as caught:
        with traced_on(question.device):
            launch = launch_of(question)
        function, shapes = launch.function(), list(map(trace_argument, question.inputs))
        try:
            program = program_of(function, shapes, chip)
        except Exception as error:
            failure = _placed(read_refusal(error), launch, question.source)
            return _refused(failure, function, shapes, question)
        lowered = OnGpu(chip.name, lowered=True, program=codec.pack(program))
        if not question.compiled:
            return dataclasses.replace(lowered, not_compiled="not requested")
        try:
            return dataclasses.replace(lowered, compiled=codec.pack(compiled(program, chip)))
        except NotInstalled as missing:
            return dataclasses.replace(lowered, not_compiled=str(missing))
    return OnGpu(chip.name, caught.problem)


def _placed(failure: GpuRefusal, launch: TracedLaunch, source: SourceFile) -> GpuRefusal:
    """The refusal with the line of the refused operation, if jax's exception doesn't give it."""
    if failure.kind is not GpuRefusalKind.PRIMITIVE or failure.line:
        return failure
    name = failure.message.rpartition(" ")[2]
    found = (eqn for eqn in equations(launch.closed.jaxpr) if eqn.primitive.name == name)
    line = next(filter(None, (line_in(eqn, source.file) for eqn in found)), 0)
    if not line:
        return failure
    text = source.place(line).text
    told = f"\n  line   {PurePath(source.file).name}:{line}\n             {text}"
    return dataclasses.replace(failure, line=told)


def _refused(
    failure: GpuRefusal, function: Callable[..., Any], shapes: list[Any], question: CompileForGpu
) -> OnGpu:
    """The answer for a launch that jax doesn't lower.

    If the launch needs too much shared memory, the answer lists its buffers.
    """
    chip = question.device.chip
    buffers: tuple[SharedBuffer, ...] = ()
    if failure.kind is GpuRefusalKind.SHARED_MEMORY:
        with contextlib.suppress(Exception), traced_on(question.device):
            buffers = buffers_of(function, shapes)
    sizes = tuple((str(buffer), buffer.size) for buffer in buffers)
    return OnGpu(chip, compiled=codec.pack(Compiled(chip, failure=failure)), buffers=sizes)
