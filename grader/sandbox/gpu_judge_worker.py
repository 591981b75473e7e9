"""The worker that runs, lowers and compiles traces of launches for GPUs, without a GPU.

Traces run in an interpreter on the CPU. The process has never imported a learner's file.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from grader.exercise.specs import trace_argument
from grader.sandbox import exception_reports
from grader.sandbox.judge_worker import launch_and_trace, launch_of
from grader.sandbox.messages import (
    Answer,
    CompileForGpu,
    Question,
    ReadTrace,
    RunResult,
    RunTrace,
)
from grader.sandbox.trace_worker import traced_on
from pallascope.gpu import Compiled, NotInstalled
from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind, read_refusal
from pallascope.gpu.gpu_compile_process import compiled
from pallascope.gpu.gpu_interpreter import run_interpreted
from pallascope.gpu.gpu_resources import SharedBuffer, buffers_of
from pallascope.gpu.gpus import named, program_of
from pallascope.gpu.thread_block_hazards import ordering_hazards
from pallascope.kernels import TracedLaunch
from pallascope.kernels.calls import called_as_written
from pallascope.model import (
    Array,
    OnGpu,
    Stage,
    Trace,
)
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
        if faults:  # the verdict is decided, and the run might never end
            return RunResult(None, trace, gpu_faults=faults)
        races: list[str] = []
        outputs: tuple[Array, ...] = ()
        with exception_reports.caught(question.source, Stage.RUN) as caught:
            outputs = tuple(map(arrays.from_numpy, run_interpreted(launch, values, races)))
        return RunResult(caught.problem, trace, outputs, tuple(races))


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
            return _refused(read_refusal(error), function, shapes, question)
        lowered = OnGpu(chip.name, lowered=True, program=codec.pack(program))
        if not question.compiled:
            return dataclasses.replace(lowered, not_compiled="not requested")
        try:
            return dataclasses.replace(lowered, compiled=codec.pack(compiled(program, chip)))
        except NotInstalled as missing:
            return dataclasses.replace(lowered, not_compiled=str(missing))
    return OnGpu(chip.name, caught.problem)


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
