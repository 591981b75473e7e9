"""Runs launches of katas on hardware that is here: a TPU or a GPU.
on a GPU, katas for GPUs: run on hidden cases, timed beside the solution's.

Whoever grades others' submissions asks for none, so that verdicts don't depend on the machine. What
is for GPUs is imported when the first such launch is asked about.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from grader.sandbox.messages import Answer, RunTrace, WorkerRole
from grader.sandbox.request_queue import RequestQueue
from grader.sandbox.worker_pool import SandboxError, Worker, WorkerPool
from grader.verdict import Device
from pallascope.model import (
    Accident,
    Array,
    GpuCrash,
    GpuRun,
    GpuTimes,
    Mode,
    OnGpu,
)
from pallascope.tools import codec

if TYPE_CHECKING:
    from pallascope.gpu.hardware import Here, SanitizerReport
    from pallascope.gpu.hardware_process import GpuRunFailure, GpuRunResult, RunQuestion
    from pallascope.tpu.lowered_programs import LoweredProgram

#: How far results may be from the solution's at production size, as a share of its largest element.
#: There is no expected value: these are two launches of the same inputs, each with its rounding.
TOLERANCE = 0.02
#: A launch has to take so many times what it takes to start one, or only that would be compared.
ABOVE_FLOOR = 2.0
#: Seconds for a process: to start, to compile, and to run a launch once, or often beside par's.
RUN_SECONDS, TIMING_SECONDS = 60.0, 120.0
NO_TOOL = (
    "compute-sanitizer is not on PATH, nor below CUDA_HOME or /usr/local/cuda: on the GPU, "
    "stray accesses are found by guards around buffers alone"
)
UNGUARDED = (
    "on {device}, {guarded} of {sides} sides of inputs and results had a pattern next to them: "
    "stores beside the others are found by compute-sanitizer alone"
)
_SILENT = "compute-sanitizer's {tool} ends without a report on the GPU"
_SUSPECTS = (
    "compute-sanitizer's racecheck suspects {what}. It changes no verdict: racecheck also suspects "
    "some bulk copies that are waited for"
)


class OnTpu:
    """Runs launches on the TPU of this machine, in a process that starts with the first of them.

    A TPU that can't be used is noted, and not tried again.
    """

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None
        self._line = RequestQueue(self._worker)
        self._hung: set[str] = set()
        self._why_not = ""
        self._untold: list[str] = []

    def ran(self, question: RunTrace, seconds: float | None) -> Answer | Accident | None:
        """What comes of a launch there, compiled; None where the TPU can't be used, and of a file
        whose launch has hung on it."""
        if self._why_not or question.source.file in self._hung:
            return None
        question = dataclasses.replace(question, mode=Mode.COMPILED)
        try:
            answer = self._line.answer(question, seconds)
        except SandboxError as error:
            self._why_not = str(error).splitlines()[-1]
            self._untold.append(f"nothing runs on the TPU, which can't be used: {self._why_not}")
            self.close()
            return None
        if isinstance(answer, Accident) and answer.stuck:
            self._hung.add(question.source.file)
        return answer

    def take_notes(self) -> tuple[str, ...]:
        """The notes since this was called last; they change no verdict."""
        notes, self._untold = tuple(self._untold), []
        return notes

    def _worker(self) -> Worker:
        if self._pool is None:
            self._pool = WorkerPool(Device("tpu", Mode.COMPILED))
        return self._pool.worker(WorkerRole.RUNNING)

    def close(self) -> None:
        """End the process, if it was started."""
        if self._pool is not None:
            self._pool.close()


class Gpu(Protocol):
    """The GPU of this machine, and what is there to look at it. Tests have one of their own."""

    def here(self) -> Here:
        """Which one it is, or why none."""
        ...

    def run(self, question: RunQuestion) -> GpuRunResult:
        """Run a program, in a process of its own."""
        ...

    def has_tools(self) -> bool:
        """Whether compute-sanitizer is here."""
        ...

    def look(self, question: RunQuestion, tool: str) -> tuple[SanitizerReport, ...] | None:
        """The same under one of its tools; None where that says nothing."""
        ...


class ThisGpu:
    """The GPU that jax would use."""

    def here(self) -> Here:
        from pallascope.gpu.hardware import here

        return here(os.environ)

    def run(self, question: RunQuestion) -> GpuRunResult:
        from pallascope.gpu import hardware

        return hardware.run(question, TIMING_SECONDS if question.par else RUN_SECONDS)

    def has_tools(self) -> bool:
        from pallascope.gpu import hardware

        return hardware.found(os.environ) is not None

    def look(self, question: RunQuestion, tool: str) -> tuple[SanitizerReport, ...] | None:
        from pallascope.gpu import hardware

        program = hardware.found(os.environ)
        return hardware.look(question, tool, program) if program else None


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A launch for a `chip`, as jax has lowered it, and its inputs; large ones have no contents.

    `of` names whose it is: once it has hung in one case, it is not run in others. Only of the
    learner's are there notes.
    """

    of: str
    chip: str
    launch: OnGpu | Accident
    inputs: tuple[Array, ...]
    seed: int = 0
    learners: bool = True


class OnHardware:
    """What comes of launches on a GPU, which is looked for once."""

    def __init__(self, gpu: Gpu | None = None) -> None:
        self._gpu: Gpu = gpu or ThisGpu()
        self._here: Here | None = None
        self._notes: list[str] = []
        self._hung: dict[str, GpuRun] = {}  # by whose launch it was
        self._told: set[str] = set()  # of what is told once

    def here(self) -> Here:
        """Which GPU it is. Asked of a process the first time, if there is a sign of one."""
        if self._here is None:
            self._here = self._gpu.here()
        return self._here

    def take_notes(self) -> tuple[str, ...]:
        """What there is to tell since it was asked last, and changes no verdict."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def ran(self, job: GpuJob, looked_at: bool) -> GpuRun | None:
        """One launch, where `looked_at` also under compute-sanitizer; None where no GPU can run it
        or jax does not lower it."""
        from pallascope.gpu.gpus import named
        from pallascope.gpu.hardware_process import RunQuestion

        program = _program(job.launch)
        if program is None or self.here().why_not_for(named(job.chip)):
            return None
        if hung := self._hung.get(job.of):
            return hung
        question = RunQuestion(program, job.inputs, job.seed)
        found = self._gpu.run(question)
        device, failure = found.device or self.here().title, found.failure
        if failure and not failure.crash.of_the_kernel:
            return GpuRun(device, why_not=f"on {device}: {_accident(failure)}")
        looked_at = looked_at or bool(failure and failure.crash is not GpuCrash.HANG)
        strays = tuple(self._strays(question, job.learners)) if looked_at else ()
        if failure:
            crashed = GpuRun(device, strays=strays, crash=failure.crash, said=failure.said)
            if failure.crash is GpuCrash.HANG:
                self._hung[job.of] = crashed
            return crashed
        if job.learners and found.guarded < found.sides:
            count = {"device": device, "guarded": found.guarded, "sides": found.sides}
            self._tell_once("guards", UNGUARDED.format(**count))
        return GpuRun(device, found.outputs, found.changed, found.trampled, strays)

    def timed(self, job: GpuJob, par: OnGpu | Accident) -> GpuTimes | None:
        """A launch in turns with the solution's; None where there is no sign of a GPU."""
        from pallascope.gpu.gpus import named
        from pallascope.gpu.hardware_process import RunQuestion

        here = self.here()
        if here.none:
            return None
        if reason := here.why_not_for(named(job.chip)):
            return GpuTimes(why_not=reason)
        if job.of in self._hung:
            return GpuTimes(here.title, why_not="the launch does not end in another hidden case")
        own, other = _program(job.launch), _program(par)
        if own is None or other is None:
            which = "the launch" if own is None else "the solution"
            return GpuTimes(here.title, why_not=f"jax has not lowered {which}")
        found = self._gpu.run(RunQuestion(own, job.inputs, job.seed, other))
        return times_of(found, here.title)

    def _tell_once(self, what: str, note: str) -> None:
        self._notes += [] if what in self._told else [note]
        self._told.add(what)

    def _strays(self, question: RunQuestion, noted: bool) -> Iterator[str]:
        """What memcheck reports; what racecheck does is `noted`."""
        from pallascope.gpu.hardware import MEMCHECK, RACECHECK

        if not self._gpu.has_tools():
            if noted:
                self._tell_once("tools", NO_TOOL)
            return
        for tool in (MEMCHECK, RACECHECK):
            reports = self._gpu.look(question, tool)
            if tool == MEMCHECK and reports:
                yield from map(str, reports)
            elif reports is None or reports:
                told = _SUSPECTS.format(what=reports[0]) if reports else _SILENT.format(tool=tool)
                self._notes += [told] if noted else []


def times_of(found: GpuRunResult, title: str) -> GpuTimes:
    """The times of two launches, or why there are none, or what is wrong with the first."""
    from pallascope.gpu.hardware_process import GpuRunStage

    device, failure = found.device or title, found.failure
    if failure:
        own = failure.stage is GpuRunStage.RUNNING and failure.crash.of_the_kernel
        told = _accident(failure)
        return GpuTimes(device, wrong=told) if own else GpuTimes(device, why_not=told)
    if wrong := _wrong(found):
        return GpuTimes(device, wrong=wrong)
    if found.own is None or found.par is None:
        return GpuTimes(device, why_not="nothing was timed")
    if found.par.median < ABOVE_FLOOR * found.floor:
        short = (
            f"the solution takes {1e6 * found.par.median:.1f} µs, and to start a launch takes "
            f"{1e6 * found.floor:.1f} µs: too short to be timed from the host"
        )
        return GpuTimes(device, found.own, found.par, why_not=short)
    return GpuTimes(device, found.own, found.par)


def _wrong(found: GpuRunResult) -> str:
    if found.changed:
        return f"input {found.changed[0]} holds something else after the launch than before"
    if found.trampled:
        return f"the launch changes {found.trampled[0]}"
    if found.far == float("inf"):
        return "results are NaN where the solution's are not, or the other way round"
    if found.far > TOLERANCE:
        return f"results differ from the solution's by {found.far:.1%} of its largest element"
    return ""


def _accident(failure: GpuRunFailure) -> str:
    """How a launch ended that did not return, in words that end a sentence."""
    where = f" ({failure.said})" if failure.said else ""
    if failure.crash is GpuCrash.UNKNOWN:
        return f"it ended while {failure.stage.value}, for no known reason{where}"
    return f"{_CRASHES[failure.crash]}{where}"


_CRASHES = {
    GpuCrash.ADDRESS: "the kernel reads or writes memory that is not its own",
    GpuCrash.MISALIGNED: "the kernel accesses memory at an address that is not aligned",
    GpuCrash.INSTRUCTION: "the kernel comes to an instruction that this GPU does not have",
    GpuCrash.LAUNCH: "the kernel is ended by the GPU",
    GpuCrash.HANG: "the launch does not end",
    GpuCrash.MEMORY: "the GPU's memory is too small, or in use",
    GpuCrash.SLOW: "it took too long before anything was launched",
}


def _program(launch: OnGpu | Accident) -> LoweredProgram | None:
    """What jax has made of a launch; None where it has made nothing."""
    from pallascope.tpu.lowered_programs import LoweredProgram

    if isinstance(launch, Accident) or not launch.program:
        return None
    return codec.unpack(LoweredProgram, launch.program)
