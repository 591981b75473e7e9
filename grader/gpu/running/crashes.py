"""How a launch ends that does not return, read from what jax, XLA and the driver print.

The names are those of CUDA's driver API.
"""

from __future__ import annotations

from grader.gpu.running.messages import Failure, Stage
from grader.model import GpuCrash

#: By what each is known; the first that is found. Once a kernel has failed, later calls fail too.
_SIGNS = (
    ("ILLEGAL_ADDRESS", GpuCrash.ADDRESS),
    ("illegal memory access", GpuCrash.ADDRESS),
    ("MISALIGNED_ADDRESS", GpuCrash.MISALIGNED),
    ("misaligned address", GpuCrash.MISALIGNED),
    ("ILLEGAL_INSTRUCTION", GpuCrash.INSTRUCTION),
    ("illegal instruction", GpuCrash.INSTRUCTION),
    ("CUDA_ERROR_LAUNCH_TIMEOUT", GpuCrash.HANG),
    ("CUDA_ERROR_LAUNCH_FAILED", GpuCrash.LAUNCH),
    ("unspecified launch failure", GpuCrash.LAUNCH),
    ("CUDA_ERROR_HARDWARE_STACK_ERROR", GpuCrash.LAUNCH),
    ("CUDA_ERROR_INVALID_PC", GpuCrash.LAUNCH),
    ("CUDA_ERROR_ASSERT", GpuCrash.LAUNCH),
    ("RESOURCE_EXHAUSTED", GpuCrash.MEMORY),
    ("CUDA_ERROR_OUT_OF_MEMORY", GpuCrash.MEMORY),
)


def read_failure(text: str, stage: Stage) -> Failure:
    """What was printed or raised by a process that had come so far."""
    for line in text.splitlines():
        for sign, crash in _SIGNS:
            if sign in line:
                return Failure(crash, stage, line.strip()[:200], text)
    last = (text.strip().splitlines() or ["nothing was printed"])[-1]
    return Failure(GpuCrash.UNKNOWN, stage, last.strip()[:200], text)


def stopped(seconds: float, stage: Stage, text: str) -> Failure:
    """A process that had to be stopped: a launch hangs, or nothing was launched in time."""
    hangs = stage in (Stage.RUNNING, Stage.TIMING)
    crash = GpuCrash.HANG if hangs else GpuCrash.SLOW
    return Failure(crash, stage, f"stopped after {seconds:g} seconds", text)
