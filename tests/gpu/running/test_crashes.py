"""How a launch ends that does not return."""

from __future__ import annotations

import pytest

from grader.gpu.running.crashes import read_failure, stopped
from grader.gpu.running.messages import Crash, Stage


@pytest.mark.parametrize(
    ("line", "crash"),
    [
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", Crash.ADDRESS),
        ("CUDA error: misaligned address", Crash.MISALIGNED),
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION", Crash.INSTRUCTION),
        ("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", Crash.LAUNCH),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 64.0GiB", Crash.MEMORY),
        ("Aborted (core dumped)", Crash.UNKNOWN),
    ],
)
def test_what_the_driver_says(line: str, crash: Crash) -> None:
    failure = read_failure(f"Traceback\n{line}\n", Stage.RUNNING)
    assert failure.crash is crash
    assert failure.said == line


def test_the_first_fault_counts() -> None:
    later = "CUDA_ERROR_ILLEGAL_ADDRESS\nRESOURCE_EXHAUSTED: Out of memory\n"
    assert read_failure(later, Stage.RUNNING).crash is Crash.ADDRESS


@pytest.mark.parametrize(
    ("stage", "crash"),
    [
        (Stage.RUNNING, Crash.HANG),
        (Stage.COMPILING, Crash.SLOW),
        (Stage.PAR, Crash.SLOW),
        (Stage.STARTING, Crash.SLOW),
    ],
)
def test_only_a_launch_hangs(stage: Stage, crash: Crash) -> None:
    assert stopped(60, stage, "").crash is crash


def test_what_is_the_kernels_own_fault() -> None:
    own = {crash for crash in Crash if crash.of_the_kernel}
    assert own == {Crash.ADDRESS, Crash.MISALIGNED, Crash.INSTRUCTION, Crash.LAUNCH, Crash.HANG}
