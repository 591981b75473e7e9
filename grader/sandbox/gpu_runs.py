"""Questions about launches for GPUs; runs on this machine's GPU: tolerance, sanitizer tools, notes.

A program that grades others' submissions has no `GpuRunner`, so that verdicts don't depend on the
machine. The first launch for a GPU imports `pallascope.gpu`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grader.exercise.targets import GpuTarget
from grader.sandbox.launch_client import LaunchClient, expected
from grader.sandbox.messages import Traced
from pallascope.model import (
    Accident,
    Array,
    GpuCrash,
    GpuRun,
    GpuTimes,
    OnGpu,
)
from pallascope.runs.questions import CompileForGpu, ReadTrace, RunTrace
from pallascope.tools import codec

if TYPE_CHECKING:
    from pallascope.gpu.compute_sanitizer import SanitizerReport
    from pallascope.gpu.local_gpu import Here
    from pallascope.gpu.timed_gpu_process import GpuRunFailure, GpuRunResult, RunQuestion
    from pallascope.tpu.hlo import LoweredProgram

#: How far results may be from the solution's at production size, as a share of its largest element.
#: There is no expected value: both launches have the same inputs, and each rounds differently.
TOLERANCE = 0.02
#: A launch must take at least this many times the start of a launch. Otherwise only the starts
#: would be compared.
ABOVE_FLOOR = 2.0
NO_TOOL = (
    "compute-sanitizer is not on PATH, nor below CUDA_HOME or /usr/local/cuda: on the GPU, "
    "only guards around buffers find stray accesses"
)
UNGUARDED = (
    "on {device}, {guarded} of {sides} sides of inputs and results had a pattern next to them: "
    "only compute-sanitizer finds stores next to the other sides"
)
_SILENT = "compute-sanitizer's {tool} ends without a report on the GPU"
_SUSPECTS = (
    "compute-sanitizer's racecheck suspects {report}. No verdict changes: racecheck also suspects "
    "some bulk copies that the kernel waits for"
)


class LocalGpu:
    """The GPU of this machine that jax would use. Tests have subclasses."""

    def here(self) -> Here:
        """The GPU, or the reason why there is none."""
        from pallascope.gpu.local_gpu import here

        return here(os.environ)

    def run(self, question: RunQuestion) -> GpuRunResult:
        """Run a program, in a separate process."""
        from pallascope.gpu import local_gpu

        return local_gpu.run(question)

    def has_tools(self) -> bool:
        """Whether compute-sanitizer is installed."""
        from pallascope.gpu import compute_sanitizer

        return compute_sanitizer.found(os.environ) is not None

    def look(self, question: RunQuestion, tool: str) -> tuple[SanitizerReport, ...] | None:
        """The reports of a tool of compute-sanitizer on a run; None if it ends without any."""
        from pallascope.gpu import compute_sanitizer

        program = compute_sanitizer.found(os.environ)
        return compute_sanitizer.look(question, tool, program) if program else None


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A launch for a `chip`, as jax has lowered it, and its inputs; large inputs have no contents.

    `of` names its owner: a launch that has hung in one case doesn't run in the owner's other cases.
    Only launches of `learners` get notes.
    """

    of: str
    chip: str
    launch: OnGpu | Accident
    inputs: tuple[Array, ...]
    seed: int = 0
    learners: bool = True


class GpuRunner:
    """Runs launches on the GPU of this machine. It looks for the GPU once."""

    def __init__(self, gpu: LocalGpu | None = None) -> None:
        self._gpu = gpu or LocalGpu()
        self._here: Here | None = None
        self._notes: list[str] = []
        self._hung: dict[str, GpuRun] = {}  # by the launch's owner
        self._noted: set[str] = set()  # the subjects of notes that were given

    def here(self) -> Here:
        """The GPU. If a GPU seems to exist, the first call asks a process about it."""
        if self._here is None:
            self._here = self._gpu.here()
        return self._here

    def take_notes(self) -> tuple[str, ...]:
        """The notes since the last call. They change no verdict."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def ran(self, job: GpuJob, looked_at: bool) -> GpuRun | None:
        """Run one launch; if `looked_at`, also under compute-sanitizer.

        None if no GPU can run it, or jax doesn't lower it.
        """
        from pallascope.gpu.gpus import named
        from pallascope.gpu.timed_gpu_process import RunQuestion

        program = _program(job.launch)
        if program is None or self.here().why_not_for(named(job.chip)):
            return None
        if hung := self._hung.get(job.of):
            return hung
        question = RunQuestion(program, job.inputs, job.seed)
        found = self._gpu.run(question)
        device, failure = found.device or self.here().title, found.failure
        if failure and not failure.crash.is_kernel_fault:
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
            self._note_once("guards", UNGUARDED.format(**count))
        return GpuRun(device, found.outputs, found.changed, found.trampled, strays)

    def timed(self, job: GpuJob, par: OnGpu | Accident) -> GpuTimes | None:
        """Time a launch, alternating with the solution's; None if no GPU seems to exist."""
        from pallascope.gpu.gpus import named
        from pallascope.gpu.timed_gpu_process import RunQuestion

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

    def _note_once(self, subject: str, note: str) -> None:
        self._notes += [] if subject in self._noted else [note]
        self._noted.add(subject)

    def _strays(self, question: RunQuestion, noted: bool) -> Iterator[str]:
        """The reports of memcheck. Reports of racecheck become notes, if `noted`."""
        from pallascope.gpu.compute_sanitizer import MEMCHECK, RACECHECK

        if not self._gpu.has_tools():
            if noted:
                self._note_once("tools", NO_TOOL)
            return
        for tool in (MEMCHECK, RACECHECK):
            reports = self._gpu.look(question, tool)
            if tool == MEMCHECK and reports:
                yield from map(str, reports)
            elif reports is None or reports:
                suspects = _SUSPECTS.format(report=reports[0]) if reports else ""
                self._notes += [suspects or _SILENT.format(tool=tool)] if noted else []


#: Seconds to lower a launch and compile it for a GPU, on a busy machine.
COMPILE_SECONDS = 300.0


@dataclass(frozen=True, eq=False)
class GpuLaunchClient(LaunchClient):
    """Asks about a launch for GPUs. `runner` runs it on the GPU of this machine."""

    runner: GpuRunner | None = None

    def _run_question(self, traced: Traced) -> RunTrace | ReadTrace:
        target = self.kata.key.target
        assert isinstance(target, GpuTarget)
        if self.case.production or target.not_interpreted:
            launch = (*self.about(traced), self.kata.name)
            return ReadTrace(*launch, followed=not self.case.production)
        return super()._run_question(traced)

    def compiled(self) -> OnGpu | Accident:
        """The launch, lowered by jax and compiled for the GPU."""
        return self._once("compiled", lambda: self._on_gpu(compiled=True))

    def lowered(self) -> OnGpu | Accident:
        """The launch, lowered by jax for the GPU."""
        if isinstance(known := self._known.get("compiled"), OnGpu):
            return known
        return self._once("lowered", lambda: self._on_gpu(compiled=False))

    def _on_gpu(self, compiled: bool) -> OnGpu | Accident:
        traced = self.traced
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return OnGpu(self.chips[0], traced.problem)
        question = CompileForGpu(*self.about(traced), compiled)
        return expected(OnGpu, self.queues.compiling.answer(question, COMPILE_SECONDS))

    def ran(self) -> GpuRun | None:
        """Run the launch on the GPU of this machine; None if there is none.

        The first case also runs under compute-sanitizer.
        """
        if self.runner is None or self.case.production:
            return None
        return self.runner.ran(self._job, looked_at=self.case.index == 0)

    def timed(self, par: GpuLaunchClient) -> GpuTimes | None:
        """The times of this launch and of the solution's, run alternately.

        None if no GPU seems to exist.
        """
        if self.runner is None or self.runner.here().none:
            return None
        return self.runner.timed(self._job, par.lowered())

    @property
    def _job(self) -> GpuJob:
        whose = f"the solution of {self.kata.id}" if self.solution else self.kata.id
        launch, inputs = self.lowered(), self.reference.inputs
        return GpuJob(whose, self.chips[0], launch, inputs, self.case.seed, not self.solution)


def times_of(found: GpuRunResult, title: str) -> GpuTimes:
    """The times of two launches, the reason why there are none, or the first launch's fault."""
    from pallascope.gpu.timed_gpu_process import GpuRunStage

    device, failure = found.device or title, found.failure
    if failure:
        own = failure.stage is GpuRunStage.RUNNING and failure.crash.is_kernel_fault
        told = _accident(failure)
        return GpuTimes(device, wrong=told) if own else GpuTimes(device, why_not=told)
    if wrong := _wrong(found):
        return GpuTimes(device, wrong=wrong)
    if found.own is None or found.par is None:
        return GpuTimes(device, why_not="nothing was timed")
    if found.par.median < ABOVE_FLOOR * found.floor:
        short = (
            f"the solution takes {1e6 * found.par.median:.1f} µs, and starting a launch takes "
            f"{1e6 * found.floor:.1f} µs: too short to be timed from the host"
        )
        return GpuTimes(device, found.own, found.par, why_not=short)
    return GpuTimes(device, found.own, found.par)


def _wrong(found: GpuRunResult) -> str:
    if found.changed:
        return f"the launch changes input {found.changed[0]}"
    if found.trampled:
        return f"the launch changes {found.trampled[0]}"
    if found.far == float("inf"):
        return "results are NaN where the solution's aren't, or the other way round"
    if found.far > TOLERANCE:
        return f"results differ from the solution's by {found.far:.1%} of its largest element"
    return ""


def _accident(failure: GpuRunFailure) -> str:
    """The end of a launch that did not return, as the end of a sentence."""
    where = f" ({failure.said})" if failure.said else ""
    if failure.crash is GpuCrash.UNKNOWN:
        return f"it ended while {failure.stage.value}, for no known reason{where}"
    return f"{_CRASHES[failure.crash]}{where}"


_CRASHES = {
    GpuCrash.ADDRESS: "the kernel reads or writes memory that is not its own",
    GpuCrash.MISALIGNED: "the kernel accesses memory at an address that is not aligned",
    GpuCrash.INSTRUCTION: "the kernel reaches an instruction that this GPU doesn't have",
    GpuCrash.LAUNCH: "the GPU ended the kernel",
    GpuCrash.HANG: "the launch does not end",
    GpuCrash.MEMORY: "the GPU's memory is too small, or in use",
    GpuCrash.SLOW: "it took too long before anything was launched",
}


def _program(launch: OnGpu | Accident) -> LoweredProgram | None:
    """The program to which jax has lowered a launch; None if it hasn't."""
    from pallascope.tpu.hlo import LoweredProgram

    if isinstance(launch, Accident) or not launch.program:
        return None
    return codec.unpack(LoweredProgram, launch.program)
