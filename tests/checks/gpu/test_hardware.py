"""The rung of a launch on a GPU that is here: what is told, and where the stars stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.checks import gpu_hardware, gpu_interpreted
from grader.checks.evidence import GpuEvidence
from grader.exercise.targets import GpuTarget
from grader.grading.ladder import verdict
from grader.verdict import State
from pallascope.model import (
    Check,
    Finding,
    GpuCrash,
    GpuRun,
    GpuTimes,
    NotJudged,
    Times,
)
from tests.checks.gpu.test_rungs import found, judged, kernel, on_gpu
from tests.pallascope.support.calls import array
from tests.support.factories import X

H100 = "NVIDIA H100 80GB HBM3"
RIGHT = GpuRun(H100, (array(2 * X),))
NO_INTERPRETER = GpuTarget((), "tensor memory is not simulated")
FAST = Times(1e-5, 1e-5, 1e-5, 20)


def on(run: GpuRun | None, par: GpuRun | None = RIGHT, **others: Any) -> GpuEvidence:
    own = on_gpu(kernel())
    return judged(own, ran=lambda: run, par_ran=lambda: par, **others)


def wrong() -> GpuRun:
    value = 2 * X.astype(np.float32)
    value[0, 0] = np.nan
    return GpuRun(H100, (array(value),))


def test_without_a_gpu_nothing_is_asked() -> None:
    assert gpu_hardware.check_gpu_ran(on(None)) is None


def test_what_is_right_there_goes_on() -> None:
    assert gpu_hardware.check_gpu_ran(on(RIGHT)) is None
    times = GpuTimes(H100, FAST, FAST)
    told = verdict(on(RIGHT, timed=lambda: times))
    assert (told.state, told.stars) == (State.PASSED, 3)


def test_what_is_wrong_there_fails() -> None:
    told = found(gpu_hardware.check_gpu_ran(on(wrong())))
    assert told.phrase.startswith("on the GPU: ")
    assert told.message.startswith(f"On {H100} itself:\n")
    assert "results start as NaN" in told.message
    off = found(gpu_hardware.check_gpu_ran(on(GpuRun(H100, (array(3 * X),)))))
    assert "results start as NaN" not in off.message
    assert verdict(on(wrong())).state is State.FAILED


@pytest.mark.parametrize(
    "run",
    [
        GpuRun(H100, crash=GpuCrash.ADDRESS),
        GpuRun(H100, (array(2 * X),), changed=(0,)),
        GpuRun(H100, (array(2 * X),), trampled=("4 bytes right after result 0",)),
        GpuRun(H100, (array(2 * X),), strays=("a write of 4 bytes …",)),
        wrong(),
    ],
    ids=["crash", "input", "guard", "memcheck", "values"],
)
def test_what_the_solution_does_too_is_not_judged(run: GpuRun) -> None:
    assert isinstance(gpu_hardware.check_gpu_ran(on(run)), Finding)
    told = gpu_hardware.check_gpu_ran(on(run, run))
    assert isinstance(told, NotJudged)
    assert f"on {H100}, the solution fails too: " in told.why
    assert "on the GPU" not in told.why
    assert isinstance(
        gpu_hardware.check_gpu_ran(on(run, GpuRun(H100, why_not="out of memory"))), Finding
    )


@pytest.mark.parametrize("crash", [crash for crash in GpuCrash if crash.is_kernel_fault])
def test_each_crash_has_words_of_its_own(crash: GpuCrash) -> None:
    run = GpuRun(H100, crash=crash, said="CUDA_ERROR_X", strays=("a read of 4 bytes",))
    told = found(gpu_hardware.check_gpu_ran(on(run)))
    assert told.check is Check.VALUES
    assert "CUDA_ERROR_X" in told.message
    assert "a read of 4 bytes" in told.message
    others = {
        found(gpu_hardware.check_gpu_ran(on(GpuRun(H100, crash=c)))).phrase
        for c in gpu_hardware._CRASHES
    }
    assert len(others) == len(gpu_hardware._CRASHES)


def test_an_input_that_is_overwritten_is_named() -> None:
    told = found(gpu_hardware.check_gpu_ran(on(GpuRun(H100, (array(2 * X),), changed=(0,)))))
    assert told.phrase == "on the GPU: overwrites its input x"


def test_an_accident_is_no_fault() -> None:
    told = verdict(on(GpuRun(H100, why_not="on H100: the GPU's memory is too small")))
    assert told.state is State.PASSED
    assert told.not_judged == NotJudged(Check.VALUES, "on H100: the GPU's memory is too small")


def test_a_gpu_tells_what_no_interpreter_does() -> None:
    assert isinstance(
        gpu_interpreted.check_gpu_interpreted(on(None, target=NO_INTERPRETER)), NotJudged
    )
    assert gpu_interpreted.check_gpu_interpreted(on(RIGHT, target=NO_INTERPRETER)) is None
    accident = GpuRun(H100, why_not="out of memory")
    assert isinstance(
        gpu_interpreted.check_gpu_interpreted(on(accident, target=NO_INTERPRETER)), NotJudged
    )
    assert verdict(on(wrong(), target=NO_INTERPRETER)).state is State.FAILED
    assert verdict(on(RIGHT, target=NO_INTERPRETER)).stars == 2


def test_at_production_size_it_is_compared_with_the_solution() -> None:
    times = GpuTimes(H100, wrong="results differ from the solution's by 40.0%")
    told = verdict(on(None, production=True, timed=lambda: times))
    assert told.state is State.FAILED
    assert told.finding
    assert told.finding.message.startswith("At this size, results differ from the solution's")
    times = GpuTimes(H100, why_not="nothing was timed")
    told = verdict(on(None, production=True, timed=lambda: times))
    assert (told.state, told.stars) == (State.PASSED, 2)
