"""Runs compute-sanitizer around the process that runs a program on the GPU, and reads its reports.

memcheck knows each allocation, so the process allocates one by one for it: inside of the large
piece that jax keeps otherwise, every address is valid. racecheck watches shared memory.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pallascope.gpu.local_gpu import Start, run
from pallascope.gpu.timed_gpu_process import RunQuestion
from pallascope.tools.child_process import ChildProcess

MEMCHECK, RACECHECK = "memcheck", "racecheck"
#: Seconds for one process: each access of the kernel is looked at.
SANITIZER_PATIENCE = 300.0
MOST = 20  # reports that the tool prints; one is told
PADDING = 4096  # bytes behind each allocation that no access may touch

_NAME = "compute-sanitizer"
_ONE_BY_ONE = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
_BESIDE = ("bin", "compute-sanitizer", "extras/compute-sanitizer")
_WHEELS = ("nvidia/cuda_sanitizer_api", "nvidia/cu13", "nvidia/cu12")

_ACCESS = re.compile(r"[Ii]nvalid __(\w+)__ (\w+) of size (\d+)(?: bytes)?")
_TENSOR = re.compile(r"(Tensor Memory .*)\.")
#: racecheck counts barriers by what the compiler tells of them, and may have counted too few.
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
    """One thing that a tool has seen.

    `space` is "global", "shared" or "local"; `what` the access or the two, and `why` what is wrong
    with it. `thread` and `block` are those of the first access, () where the tool names none.
    """

    tool: str
    space: str
    what: str
    why: str
    kernel: str = ""
    thread: Coordinates = ()
    block: Coordinates = ()

    def __str__(self) -> str:
        """In one line, without its end: "a write of 4 bytes to global memory …"."""
        who = f"thread {_told(self.thread)}" if self.thread else ""
        where = f"block {_told(self.block)}" if self.block else ""
        parts = [p for p in (who, where, f"kernel {self.kernel}" if self.kernel else "") if p]
        return f"{self.what}: {self.why}" + (f" ({', '.join(parts)})" if parts else "")


def found(environ: Mapping[str, str], root: Path = Path("/")) -> Path | None:
    """Where compute-sanitizer is: on PATH, below the CUDA root, or in NVIDIA's packages."""
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
    """A tool's reports of one run; None where the tool has not come to an end."""
    with tempfile.TemporaryDirectory(prefix="pallas-katas-gpu-") as folder:
        log = Path(folder, "sanitizer.log")
        run(question, patience, start, command(program, tool, log), _ONE_BY_ONE)
        return reports(log.read_text(errors="replace"), tool) if log.exists() else None


def command(program: Path, tool: str, log: Path) -> list[str]:
    """What stands before the command that is looked at, and no process that this one starts."""
    return [
        *(str(program), "--tool", tool, "--log-file", str(log), "--print-limit", str(MOST)),
        *("--show-backtrace", "no", "--target-processes", "application-only"),
        *(("--padding", str(PADDING)) if tool == MEMCHECK else ("--racecheck-report", "all")),
    ]


def reports(log: str, tool: str) -> tuple[SanitizerReport, ...] | None:
    """What a log reports, first what names a thread; None where the tool itself has failed.

    That it has where there is neither a summary nor a report, or where it says so.
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
    """racecheck's analysis names both places; its hazards the threads too."""
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
    """The lines that belong to a report: up to the next, or to an empty one."""
    for line in lines:
        if not line or any(begin.search(line) for begin in begins):
            return
        yield line


def _kernel(at: str) -> str:
    """The kernel's name of a place; "" where it has none."""
    place = re.sub(r"^0x[0-9a-f]+ in ", "", at.strip())
    name = re.match(r"(?:\S+?:\d+:)?([A-Za-z_]\w*)", place)
    return name[1] if name else ""


def _told(coordinates: Coordinates) -> str:
    return ",".join(map(str, coordinates))
