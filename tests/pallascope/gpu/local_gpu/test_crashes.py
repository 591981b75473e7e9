"""How a launch ends that does not return."""

from __future__ import annotations

import pytest

from pallascope.gpu.timed_gpu_process import GpuRunStage, read_failure, stopped
from pallascope.model import GpuCrash


@pytest.mark.parametrize(
    ("line", "crash"),
    [
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", GpuCrash.ADDRESS),
        ("CUDA error: misaligned address", GpuCrash.MISALIGNED),
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION", GpuCrash.INSTRUCTION),
        ("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", GpuCrash.LAUNCH),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 64.0GiB", GpuCrash.MEMORY),
        ("Aborted (core dumped)", GpuCrash.UNKNOWN),
    ],
)
def test_what_the_driver_says(line: str, crash: GpuCrash) -> None:
    failure = read_failure(f"Traceback\n{line}\n", GpuRunStage.RUNNING)
    assert failure.crash is crash
    assert failure.said == line


def test_the_first_fault_counts() -> None:
    later = "CUDA_ERROR_ILLEGAL_ADDRESS\nRESOURCE_EXHAUSTED: Out of memory\n"
    assert read_failure(later, GpuRunStage.RUNNING).crash is GpuCrash.ADDRESS


@pytest.mark.parametrize(
    ("stage", "crash"),
    [
        (GpuRunStage.RUNNING, GpuCrash.HANG),
        (GpuRunStage.COMPILING, GpuCrash.SLOW),
        (GpuRunStage.PAR, GpuCrash.SLOW),
        (GpuRunStage.STARTING, GpuCrash.SLOW),
    ],
)
def test_only_a_launch_hangs(stage: GpuRunStage, crash: GpuCrash) -> None:
    assert stopped(60, stage, "").crash is crash


def test_what_is_the_kernels_own_fault() -> None:
    own = {crash for crash in GpuCrash if crash.is_kernel_fault}
    assert own == {
        GpuCrash.ADDRESS,
        GpuCrash.MISALIGNED,
        GpuCrash.INSTRUCTION,
        GpuCrash.LAUNCH,
        GpuCrash.HANG,
    }
