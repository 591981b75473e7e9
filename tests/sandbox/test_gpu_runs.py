"""Launches on a GPU that is a stub: what is asked of it, and what becomes of its answers."""

from __future__ import annotations

import dataclasses

import pytest

from grader.sandbox.gpu_runs import NO_TOOL, GpuJob, GpuRunner, LocalGpu
from pallascope.gpu.compute_sanitizer import MEMCHECK, RACECHECK, SanitizerReport
from pallascope.gpu.local_gpu import Here
from pallascope.gpu.timed_gpu_process import (
    GpuRunFailure,
    GpuRunResult,
    GpuRunStage,
    RunQuestion,
)
from pallascope.model import (
    Accident,
    Array,
    GpuCrash,
    OnGpu,
    Times,
)
from pallascope.tools import codec
from pallascope.tpu.hlo import LoweredProgram

OWN = LoweredProgram(b"own", (0,), (), ())
PAR = LoweredProgram(b"par", (0,), (), ())
X = Array("float32", (2,), bytes(8))
H100 = Here("NVIDIA H100 80GB HBM3", (9, 0))
FAST, SLOW = Times(1e-5, 0.9e-5, 2e-5, 20), Times(3e-5, 3e-5, 3e-5, 20)
RAN = GpuRunResult("NVIDIA H100 80GB HBM3", (X,), own=FAST, par=FAST, floor=1e-6)
STRAY = SanitizerReport(MEMCHECK, "global", "a write of 4 bytes of global memory", "out of bounds")
RACE = SanitizerReport(
    RACECHECK, "shared", "a write and a read of shared memory", "nothing orders them"
)


def lowered(program: LoweredProgram) -> OnGpu:
    return OnGpu("h100", lowered=True, program=codec.pack(program))


JOB = GpuJob("10_gpu/x", "h100", lowered(OWN), (X,), seed=5)


@dataclasses.dataclass
class Stub(LocalGpu):
    """A GPU that answers what it is told to, and keeps what it was asked."""

    ran: GpuRunResult = RAN
    is_here: Here = H100
    reports: dict[str, tuple[SanitizerReport, ...] | None] | None = None
    asked: list[RunQuestion | str] = dataclasses.field(default_factory=list)

    def here(self) -> Here:
        self.asked.append("here")
        return self.is_here

    def run(self, question: RunQuestion) -> GpuRunResult:
        self.asked.append(question)
        return self.ran

    def has_tools(self) -> bool:
        return self.reports is not None

    def look(self, question: RunQuestion, tool: str) -> tuple[SanitizerReport, ...] | None:
        self.asked.append(tool)
        return (self.reports or {}).get(tool)


def failing(crash: GpuCrash, stage: GpuRunStage = GpuRunStage.RUNNING) -> GpuRunResult:
    return GpuRunResult(failure=GpuRunFailure(crash, stage, "CUDA_ERROR_X"))


def test_a_gpu_is_looked_for_once_and_a_launch_is_run_once() -> None:
    stub = Stub()
    hardware = GpuRunner(stub)
    first, second = hardware.ran(JOB, False), hardware.ran(JOB, False)
    assert first == second
    assert first
    assert (first.device, first.outputs, first.crash) == (H100.title, (X,), None)
    assert stub.asked == ["here", RunQuestion(OWN, (X,), 5), RunQuestion(OWN, (X,), 5)]


def test_without_a_gpu_nothing_is_run_and_nothing_told() -> None:
    stub = Stub(is_here=Here(why_not="no NVIDIA driver is here", none=True))
    hardware = GpuRunner(stub)
    assert hardware.ran(JOB, True) is None
    assert hardware.timed(JOB, lowered(PAR)) is None
    assert stub.asked == ["here"]
    assert hardware.take_notes() == ()


def test_a_gpu_of_another_generation_is_told_where_time_is() -> None:
    hardware = GpuRunner(Stub())
    job = dataclasses.replace(JOB, chip="b200")
    assert hardware.ran(job, True) is None
    times = hardware.timed(job, lowered(PAR))
    assert times
    assert "here is NVIDIA H100" in times.why_not


@pytest.mark.parametrize("launch", [OnGpu("h100"), Accident("it died", "")])
def test_what_jax_does_not_lower_is_not_run(launch: OnGpu | Accident) -> None:
    stub = Stub()
    hardware = GpuRunner(stub)
    job = dataclasses.replace(JOB, launch=launch)
    assert hardware.ran(job, True) is None
    times = hardware.timed(job, lowered(PAR))
    assert times
    assert times.why_not == "jax has not lowered the launch"
    times = hardware.timed(JOB, launch)
    assert times
    assert times.why_not == "jax has not lowered the solution"
    assert stub.asked == ["here"]


@pytest.mark.parametrize("crash", GpuCrash)
def test_a_crash_is_the_kernels_or_nobodys(crash: GpuCrash) -> None:
    times = GpuRunner(Stub(failing(crash))).timed(JOB, lowered(PAR))
    found = GpuRunner(Stub(failing(crash))).ran(JOB, False)
    assert found
    assert times
    assert (found.crash is crash) == bool(times.wrong) == crash.is_kernel_fault
    assert bool(found.why_not) == bool(times.why_not) == (not crash.is_kernel_fault)
    assert "CUDA_ERROR_X" in (found.said or found.why_not)


def test_a_crash_beside_par_is_not_the_kernels() -> None:
    times = GpuRunner(Stub(failing(GpuCrash.ADDRESS, GpuRunStage.PAR))).timed(JOB, lowered(PAR))
    assert times
    assert times.why_not
    assert not times.wrong


def test_what_has_hung_is_not_run_again() -> None:
    stub = Stub(failing(GpuCrash.HANG), reports={MEMCHECK: (STRAY,)})
    hardware = GpuRunner(stub)
    first, again = hardware.ran(JOB, False), hardware.ran(JOB, True)
    assert first == again
    times = hardware.timed(JOB, lowered(PAR))
    assert times
    assert "does not end in another hidden case" in times.why_not
    assert stub.asked == ["here", RunQuestion(OWN, (X,), 5)]
    stub.ran = RAN
    other = hardware.ran(dataclasses.replace(JOB, of="10_gpu/y"), False)
    assert other
    assert other.crash is None


def test_the_tools_are_asked_where_that_is_wanted_or_a_launch_has_crashed() -> None:
    stub = Stub(reports={MEMCHECK: (), RACECHECK: ()})
    hardware = GpuRunner(stub)
    hardware.ran(JOB, False)
    assert MEMCHECK not in stub.asked
    hardware.ran(JOB, True)
    assert stub.asked[-2:] == [MEMCHECK, RACECHECK]
    stub.ran = failing(GpuCrash.ADDRESS)
    stub.reports = {MEMCHECK: (STRAY,), RACECHECK: ()}
    found = hardware.ran(JOB, False)
    assert found
    assert found.strays == (str(STRAY),)


def test_racecheck_changes_no_verdict() -> None:
    hardware = GpuRunner(Stub(reports={MEMCHECK: (), RACECHECK: (RACE,)}))
    found = hardware.ran(JOB, True)
    assert found
    assert found.strays == ()
    (note,) = hardware.take_notes()
    assert "suspects a write and a read of shared memory: nothing orders them" in note
    assert hardware.take_notes() == ()
    hardware.ran(dataclasses.replace(JOB, of="the solution", learners=False), True)
    assert hardware.take_notes() == ()


def test_that_a_tool_is_missing_is_told_once() -> None:
    hardware = GpuRunner(Stub())
    hardware.ran(JOB, True)
    hardware.ran(JOB, True)
    assert hardware.take_notes() == (NO_TOOL,)


def test_that_guards_are_missing_is_told_once() -> None:
    hardware = GpuRunner(Stub(dataclasses.replace(RAN, guarded=3, sides=4)))
    hardware.ran(JOB, False)
    hardware.ran(JOB, False)
    (note,) = hardware.take_notes()
    assert "3 of 4 sides of inputs and results had a pattern" in note


def test_a_tool_that_says_nothing_is_told() -> None:
    hardware = GpuRunner(Stub(reports={MEMCHECK: None, RACECHECK: ()}))
    hardware.ran(JOB, True)
    (note,) = hardware.take_notes()
    assert "memcheck ends without a report" in note


def test_both_are_timed_in_one_process() -> None:
    stub = Stub(dataclasses.replace(RAN, own=SLOW))
    times = GpuRunner(stub).timed(JOB, lowered(PAR))
    assert stub.asked[-1] == RunQuestion(OWN, (X,), 5, PAR)
    assert times
    assert (times.own, times.par, times.wrong, times.why_not) == (SLOW, FAST, "", "")


def test_launches_that_are_too_short_are_not_compared() -> None:
    times = GpuRunner(Stub(dataclasses.replace(RAN, floor=6e-6))).timed(JOB, lowered(PAR))
    assert times
    assert "takes 10.0 µs, and starting a launch takes 6.0 µs" in times.why_not
    assert times.own == FAST


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"far": 0.021}, "differ from the solution's by 2.1%"),
        ({"far": float("inf")}, "NaN"),
        ({"changed": (0,)}, "the launch changes input 0"),
        ({"trampled": ("4 bytes right after result 0",)}, "changes 4 bytes right after result 0"),
    ],
)
def test_what_is_wrong_at_production_size(change: dict[str, object], told: str) -> None:
    times = GpuRunner(Stub(dataclasses.replace(RAN, **change))).timed(JOB, lowered(PAR))
    assert times
    assert told in times.wrong


def test_rounding_is_not_wrong() -> None:
    times = GpuRunner(Stub(dataclasses.replace(RAN, far=0.008))).timed(JOB, lowered(PAR))
    assert times
    assert not times.wrong
