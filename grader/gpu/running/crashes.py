"""How a launch ends that does not return, read from what jax, XLA and the driver print.

The names are those of CUDA's driver API.
"""

from __future__ import annotations

from grader.gpu.running.messages import Crash, Failure, Stage

#: By what each is known; the first that is found. Once a kernel has failed, later calls fail too.
_SIGNS = (
    ("ILLEGAL_ADDRESS", Crash.ADDRESS),
    ("illegal memory access", Crash.ADDRESS),
    ("MISALIGNED_ADDRESS", Crash.MISALIGNED),
    ("misaligned address", Crash.MISALIGNED),
    ("ILLEGAL_INSTRUCTION", Crash.INSTRUCTION),
    ("illegal instruction", Crash.INSTRUCTION),
    ("CUDA_ERROR_LAUNCH_TIMEOUT", Crash.HANG),
    ("CUDA_ERROR_LAUNCH_FAILED", Crash.LAUNCH),
    ("unspecified launch failure", Crash.LAUNCH),
    ("CUDA_ERROR_HARDWARE_STACK_ERROR", Crash.LAUNCH),
    ("CUDA_ERROR_INVALID_PC", Crash.LAUNCH),
    ("CUDA_ERROR_ASSERT", Crash.LAUNCH),
    ("RESOURCE_EXHAUSTED", Crash.MEMORY),
    ("CUDA_ERROR_OUT_OF_MEMORY", Crash.MEMORY),
)


def read_failure(text: str, stage: Stage) -> Failure:
    """What was printed or raised by a process that had come so far."""
    for line in text.splitlines():
        for sign, crash in _SIGNS:
            if sign in line:
                return Failure(crash, stage, line.strip()[:200], text)
    last = (text.strip().splitlines() or ["nothing was printed"])[-1]
    return Failure(Crash.UNKNOWN, stage, last.strip()[:200], text)


def stopped(seconds: float, stage: Stage, text: str) -> Failure:
    """A process that had to be stopped: a launch hangs, or nothing was launched in time."""
    hangs = stage in (Stage.RUNNING, Stage.TIMING)
    crash = Crash.HANG if hangs else Crash.SLOW
    return Failure(crash, stage, f"stopped after {seconds:g} seconds", text)
