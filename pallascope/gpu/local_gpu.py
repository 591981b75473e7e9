"""Finds the GPU of this machine, and runs programs on it in a child process.

It looks for files first, then starts a process that asks jax. No process is started if there is no
driver or plugin, or if the environment hides every GPU. The process has its own environment, since
that of workers keeps jax on the CPU.

A program runs on the GPU in its own process, which ends with it or with its time. A kernel that
writes out of bounds breaks the CUDA context, and one that waits for ever never frees the GPU: only
that process is lost. Only one such process runs at a time, even if several gradings run on this
machine, because two would disturb each other's times.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pallascope.gpu import timed_gpu_process
from pallascope.gpu.gpus import GpuChip
from pallascope.gpu.timed_gpu_process import (
    GpuRunResult,
    GpuRunStage,
    RunQuestion,
    read_failure,
    stopped,
)
from pallascope.gpu.toolchain import plugin_installed
from pallascope.tools.child_process import ChildEnded, ChildProcess, ChildTimeout
from pallascope.tools.versions import install_hint

#: Seconds for a process to import jax and to find the GPU. A driver may take several to wake up.
DETECTION_SECONDS = 120.0
HOPPER = (9, 0)
NEEDED = "a Hopper (H100, H200) or newer"

#: Runs the process with an environment; returns its exit code and its output.
Ask = Callable[[Mapping[str, str]], tuple[int, str]]

_MARK = "pallas-katas-gpu:"
_ASK = f"""
import sys
sys.path[:] = {{path!r}}
import jax
device = jax.devices("gpu")[0]
print("{_MARK}", getattr(device, "compute_capability", ""), device.device_kind, sep="\\t")
"""


@dataclass(frozen=True, slots=True)
class Here:
    """The GPU that jax calls `title`, with its compute capability; or `why_not`.

    `none`: there is no sign of a GPU, so a message isn't needed.
    """

    title: str = ""
    capability: tuple[int, int] = (0, 0)
    why_not: str = ""
    none: bool = False

    def why_not_for(self, chip: GpuChip) -> str:
        """The reason if a kernel for `chip` can't run here, otherwise ""."""
        if self.why_not:
            return self.why_not
        if self.capability < HOPPER:
            told = ".".join(map(str, self.capability))
            return f"{self.title} has compute capability {told}: kernels need {NEEDED}"
        if self.capability[0] != chip.capability[0]:
            return (
                f"the kernel is for the generation of {chip.title}, and here is {self.title}: "
                "--kata-gpu chooses the other"
            )
        return ""


def here(
    environ: Mapping[str, str],
    root: Path = Path("/"),
    ask: Ask | None = None,
) -> Here:
    """The first GPU that jax can use."""
    if not _driver(root):
        return Here(why_not="no NVIDIA driver is here", none=True)
    if reason := _hidden(environ):
        return Here(why_not=reason)
    if not plugin_installed():
        return Here(
            why_not=f"a GPU is here; jax's CUDA plugin is not installed ({install_hint('gpu')})"
        )
    code, printed = (ask or _asked)(environment(environ))
    return _read(code, printed)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that uses the GPU, without the settings that keep workers off.

    XLA's flags are for programs interpreted on a CPU; some aren't valid for a GPU.
    """
    kept = {name: value for name, value in environ.items() if name not in _OFF}
    return {**kept, "JAX_PLATFORMS": "cuda", "TF_CPP_MIN_LOG_LEVEL": "2"}


_OFF = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "XLA_FLAGS")


def _driver(root: Path) -> bool:
    """Whether a driver's devices exist: on Linux, or on Windows' Linux."""
    return (root / "dev/nvidiactl").exists() or (root / "dev/dxg").exists()


def _hidden(environ: Mapping[str, str]) -> str:
    """The variable in the environment that keeps jax from every GPU, as a message."""
    platforms = environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & {name.strip() for name in platforms.split(",")}:
        return f"JAX_PLATFORMS={platforms} keeps jax from the GPU"
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.split(",")[0].strip() in ("", "-1", "NoDevFiles"):
        return f"CUDA_VISIBLE_DEVICES={visible} hides every GPU"
    return ""


def _asked(environ: Mapping[str, str]) -> tuple[int, str]:
    code = _ASK.format(path=sys.path)
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DETECTION_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {DETECTION_SECONDS:g} seconds"
    return ran.returncode, ran.stdout.decode(errors="replace")


#: Signs of the cause; the exception that jax raises in the end may have no message.
_SIGNS = ("CUDA_ERROR", "CUDA driver", "Unable to load", "cannot open shared object", "cuInit")


def _reason(code: int, printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if telling := [line for line in lines if any(sign in line for sign in _SIGNS)]:
        return telling[-1]
    if lines and lines[-1] == "AssertionError":
        return "it finds none that works, and gives no reason"
    return lines[-1] if lines else f"exit code {code}"


def _read(code: int, printed: str) -> Here:
    told = [line for line in printed.splitlines() if line.startswith(_MARK)]
    if code or not told:
        return Here(why_not=f"jax can't use the GPU: {_reason(code, printed)[:200]}")
    _, capability, title = told[-1].split("\t", 2)
    try:
        major, minor = map(int, capability.split("."))
    except ValueError:
        return Here(why_not=f"jax names no compute capability of {title}")
    return Here(title, (major, minor))


#: Seconds for a process: to start, to compile, and to run a launch once, or often beside par's.
RUN_SECONDS, TIMING_SECONDS = 60.0, 120.0

_LOCK = "pallas-katas-gpu.lock"
#: A part of the memory in one piece, so that successive allocations are neighbours.
_IN_ONE_PIECE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4"}

#: Starts a child that runs a module, with an environment and a prefix of its command.
Start = Callable[[str, Mapping[str, str], Sequence[str]], ChildProcess]


def run(
    question: RunQuestion,
    patience: float | None = None,
    start: Start = ChildProcess.running,
    before: Sequence[str] = (),
    added: Mapping[str, str] = _IN_ONE_PIECE,
) -> GpuRunResult:
    """The result of a program on the GPU of this machine.

    Without `patience`, it has RUN_SECONDS, or TIMING_SECONDS if it is timed. `before` stands
    before the process's command. `added` goes to its environment.
    """
    if patience is None:
        patience = TIMING_SECONDS if question.par else RUN_SECONDS
    environ = {**environment(os.environ), **added}
    with alone(), start(timed_gpu_process.__name__, environ, before) as child:
        child.send(question)
        return _answer(child, patience)


def _answer(child: ChildProcess, patience: float) -> GpuRunResult:
    stage, deadline = GpuRunStage.STARTING, time.monotonic() + patience
    try:
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            answer = child.answer(GpuRunStage | GpuRunResult, left)
            if isinstance(answer, GpuRunResult):
                child.close(left)  # a tool around its command writes its log at its end
                return answer
            stage = answer
    except ChildTimeout as error:
        return GpuRunResult(failure=stopped(patience, stage, error.printed))
    except ChildEnded as error:
        said = error.printed.strip() or f"the process ended with exit code {error.code}"
        return GpuRunResult(failure=read_failure(said, stage))


@contextlib.contextmanager
def alone(file: Path | None = None) -> Iterator[None]:
    """Wait until no other process of this machine runs a kata's program on the GPU."""
    try:
        import fcntl

        lock = _opened(file or Path(tempfile.gettempdir(), _LOCK))
    except (ImportError, OSError):  # no such lock, or no way to acquire it
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _opened(file: Path) -> int:
    """Open a file to lock it; read access is enough for a file of another user."""
    try:
        return os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(file, os.O_RDONLY | os.O_CREAT, 0o644)
