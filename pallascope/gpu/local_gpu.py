"""Finds the GPU of this machine, and runs programs on it in a child process.

It looks for files first, then starts a process that asks jax. No process is started if there is no
driver or plugin, or if the environment hides every GPU. The process has its own environment, since
that of workers keeps jax on the CPU.

A program runs on the GPU in its own process, which ends with it or with its time. A kernel that
writes out of bounds breaks the CUDA context, and one that waits for ever never frees the GPU: only
that process is lost. Only one such process runs at a time, even if several gradings run on this
machine, because two would disturb each other's times.

compute-sanitizer can run around the process. memcheck knows each allocation, so the process
allocates arrays one by one for it: inside of the large piece that jax allocates otherwise, every
address is valid. racecheck watches shared memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pallascope.gpu import local_gpu_process
from pallascope.gpu.gpus import GpuChip
from pallascope.gpu.local_gpu_process import (
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


#: Seconds for one process: to import jax, compile, run and time.
PATIENCE = 120.0

_LOCK = "pallas-katas-gpu.lock"
#: A part of the memory in one piece, so that successive allocations are neighbours.
_IN_ONE_PIECE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4"}

#: Starts a child that runs a module, with an environment and a prefix of its command.
Start = Callable[[str, Mapping[str, str], Sequence[str]], ChildProcess]


def run(
    question: RunQuestion,
    patience: float = PATIENCE,
    start: Start = ChildProcess.running,
    before: Sequence[str] = (),
    added: Mapping[str, str] = _IN_ONE_PIECE,
) -> GpuRunResult:
    """The result of a program on the GPU of this machine.

    `before` precedes the process's command. `added` goes to its environment.
    """
    environ = {**environment(os.environ), **added}
    with alone(), start(local_gpu_process.__name__, environ, before) as child:
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


MEMCHECK, RACECHECK = "memcheck", "racecheck"
#: Seconds for one process: the tool checks each access of the kernel.
SANITIZER_PATIENCE = 300.0
MOST = 20  # reports that the tool prints; one is shown
PADDING = 4096  # bytes after each allocation that no access may touch

_NAME = "compute-sanitizer"
_ONE_BY_ONE = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
_BESIDE = ("bin", "compute-sanitizer", "extras/compute-sanitizer")
_WHEELS = ("nvidia/cuda_sanitizer_api", "nvidia/cu13", "nvidia/cu12")

_ACCESS = re.compile(r"[Ii]nvalid __(\w+)__ (\w+) of size (\d+)(?: bytes)?")
_TENSOR = re.compile(r"(Tensor Memory .*)\.")
#: racecheck counts barriers by the compiler's information, and may have counted too few.
_UNRELIABLE = "overflow of tracked"
_THREAD = re.compile(r"by thread \((\d+), ?(\d+), ?(\d+)\) in block \((\d+), ?(\d+), ?(\d+)\)")
_ADDRESS = re.compile(r"(?:Address|Access at) 0x[0-9a-f]+ is (misaligned|out of bounds|located .+)")
_RACE = re.compile(r"(Error|Warning): Race reported between (\w+) access at (.+)", re.IGNORECASE)
_OTHER = re.compile(r"and (\w+) access at (.+?)(?: \[(\d+) hazards?\])?$")
_HAZARD = re.compile(
    r"Potential (RAW|WAR|WAW) hazard detected at __(\w+)__ .*in block \(([\d, ]+)\)"
)
_PARTY = re.compile(r"(Read|Write) Thread \((\d+), ?(\d+), ?(\d+)\) at (.+)")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")

Coordinates = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SanitizerReport:
    """One report of a tool.

    `space` is "global", "shared" or "local"; `what` is the access or the two accesses, and `why`
    the error. `thread` and `block` are those of the first access, () if the tool names none.
    """

    tool: str
    space: str
    what: str
    why: str
    kernel: str = ""
    thread: Coordinates = ()
    block: Coordinates = ()

    def __str__(self) -> str:
        """In one line, without a full stop: "a write of 4 bytes to global memory …"."""
        who = f"thread {_told(self.thread)}" if self.thread else ""
        where = f"block {_told(self.block)}" if self.block else ""
        parts = [p for p in (who, where, f"kernel {self.kernel}" if self.kernel else "") if p]
        return f"{self.what}: {self.why}" + (f" ({', '.join(parts)})" if parts else "")


def found(environ: Mapping[str, str], root: Path = Path("/")) -> Path | None:
    """The path of compute-sanitizer: on PATH, below the CUDA root, or in NVIDIA's packages."""
    if there := shutil.which(_NAME, path=environ.get("PATH", "")):
        return Path(there)
    roots = [environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT") if name in environ]
    folders = [*map(Path, roots), root / "usr/local/cuda"]
    folders += [Path(each, wheel) for each in sys.path for wheel in _WHEELS]
    files = (folder / beside / _NAME for folder in folders for beside in _BESIDE)
    return next((file for file in files if file.is_file()), None)


def look(
    question: RunQuestion,
    tool: str,
    program: Path,
    start: Start = ChildProcess.running,
    patience: float = SANITIZER_PATIENCE,
) -> tuple[SanitizerReport, ...] | None:
    """A tool's reports of one run; None if the tool hasn't finished."""
    with tempfile.TemporaryDirectory(prefix="pallas-katas-gpu-") as folder:
        log = Path(folder, "sanitizer.log")
        run(question, patience, start, command(program, tool, log), _ONE_BY_ONE)
        return reports(log.read_text(errors="replace"), tool) if log.exists() else None


def command(program: Path, tool: str, log: Path) -> list[str]:
    """The tool's command, to precede a command; processes started by that aren't checked."""
    return [
        *(str(program), "--tool", tool, "--log-file", str(log), "--print-limit", str(MOST)),
        *("--show-backtrace", "no", "--target-processes", "application-only"),
        *(("--padding", str(PADDING)) if tool == MEMCHECK else ("--racecheck-report", "all")),
    ]


def reports(log: str, tool: str) -> tuple[SanitizerReport, ...] | None:
    """The reports in a log, those with a thread first; None if the tool itself has failed.

    The tool has failed if it says so, or if there is neither a summary nor a report.
    """
    lines = [line.lstrip("= \t") for line in log.splitlines() if line.startswith("=====")]
    if any(_UNRELIABLE in line for line in lines):
        return None
    seen = [*_accesses(lines, tool), *(_races(lines) if tool == RACECHECK else ())]
    found = tuple(sorted(seen, key=lambda report: not report.thread))
    return found if found or any(_SUMMARY.search(line) for line in lines) else None


def _accesses(lines: Sequence[str], tool: str) -> Iterator[SanitizerReport]:
    for number, line in enumerate(lines):
        access, tensor = _ACCESS.search(line), _TENSOR.match(line)
        if not (access or tensor):
            continue
        rest = list(_until(lines[number + 1 :], _ACCESS, _TENSOR))
        at = next((one[3:] for one in rest if one.startswith("at ")), "")
        thread = next(filter(None, map(_THREAD.search, rest)), None)
        why = next(filter(None, map(_ADDRESS.search, rest)), None)
        numbers = tuple(map(int, thread.groups())) if thread else ()
        space, what = _accessed(access) if access else ("tensor", "an access to tensor memory")
        told = tensor[1] if tensor else why[1] if why else "not allowed"
        yield SanitizerReport(
            *(tool, space, what, told, _kernel(at)),
            thread=numbers[:3],
            block=numbers[3:],
        )


def _accessed(access: re.Match[str]) -> tuple[str, str]:
    space, kind, size = access.groups()
    return space, f"a {kind} of {size} byte{'' if size == '1' else 's'} of {space} memory"


def _races(lines: Sequence[str]) -> Iterator[SanitizerReport]:
    """racecheck's analysis names both places; its hazards also name the threads."""
    for number, line in enumerate(lines):
        rest = list(_until(lines[number + 1 :], _RACE, _HAZARD))
        if race := _RACE.search(line):
            others = [other for one in rest if (other := _OTHER.search(one))]
            kinds = list(dict.fromkeys(other[1].lower() for other in others))
            what = f"a {race[2].lower()} and a {' and a '.join(kinds) or 'second access'}"
            why = "nothing orders them"
            yield SanitizerReport(
                RACECHECK, "shared", f"{what} of shared memory", why, _kernel(race[3])
            )
        elif hazard := _HAZARD.search(line):
            parties = [party for one in rest if (party := _PARTY.search(one))]
            kinds = [party[1].lower() for party in parties] or ["access", "second access"]
            what = f"a {' and a '.join(kinds)} of {hazard[2]} memory"
            first = parties[0] if parties else None
            yield SanitizerReport(
                *(RACECHECK, hazard[2], what, f"nothing orders them ({hazard[1]})"),
                kernel=_kernel(first[5]) if first else "",
                thread=tuple(int(first[n]) for n in (2, 3, 4)) if first else (),
                block=tuple(map(int, hazard[3].split(","))),
            )


def _until(lines: Sequence[str], *begins: re.Pattern[str]) -> Iterator[str]:
    """The lines that belong to a report: up to the next report, or to an empty line."""
    for line in lines:
        if not line or any(begin.search(line) for begin in begins):
            return
        yield line


def _kernel(at: str) -> str:
    """The kernel's name in a place; "" if there is none."""
    place = re.sub(r"^0x[0-9a-f]+ in ", "", at.strip())
    name = re.match(r"(?:\S+?:\d+:)?([A-Za-z_]\w*)", place)
    return name[1] if name else ""


def _told(coordinates: Coordinates) -> str:
    return ",".join(map(str, coordinates))
