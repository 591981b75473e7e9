"""Parses libtpu's and Mosaic's errors: kind, crashes, the line of the report.

Supports libtpu 0.0.42.1, 0.0.50.1 and 0.0.51. A message of unknown form becomes an INTERNAL failure
with its full text.
"""

from __future__ import annotations

import enum
import itertools
import linecache
import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pallascope.model import KernelCall, SourceLine
from pallascope.tpu.vmem import (
    Allocation,
    footprint,
    named_allocations,
    scoped_buffers,
)


class LibtpuRefusalKind(enum.Enum):
    """The kind of a libtpu error."""

    VMEM = "vmem"  # it needs more vector memory than there is
    SMEM = "smem"  # … scalar memory
    SEMAPHORES = "sflag"  # … semaphores
    HBM = "hbm"  # its arrays don't fit into the chip's main memory
    CORES = "cores"  # its mesh has more TensorCores than the chip
    LOWERING = "lowering"  # jax's Mosaic lowering refused it, before libtpu
    UNSUPPORTED = "unsupported"  # libtpu's Mosaic doesn't support an operation
    ABORT = "abort"  # libtpu ended its process because of it
    INTERNAL = "internal"  # anything else


@dataclass(frozen=True, slots=True)
class LibtpuRefusal:
    """A parsed error of libtpu. Sizes are in bytes; 0 if the message has none.

    `operation` is MLIR's name of the operation that failed, such as "tpu.vector_load", and `types`
    its operands' types. `file` and `place` are the kernel's line if the exception has it.
    """

    kind: LibtpuRefusalKind
    message: str
    full: str
    operation: str = ""
    types: str = ""
    file: str = ""
    place: SourceLine | None = None
    wanted: int = 0
    limit: int = 0
    allocations: tuple[Allocation, ...] = ()


_TOO_MUCH = "it needs more VMEM than it may have"
_SCOPED = re.compile(r"Scoped allocation with size (\S+) and limit (\S+) exceeded")
_WHOLE = re.compile(r"Ran out of memory in memory space vmem\. Used (\S+) of (\S+) vmem")
_SINGLE = re.compile(
    r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)"
    r".*?\[shape = '([^']*)', space=(\w+),.*?tag = '([^']*)'"
)
_HBM = re.compile(r"required for HLO temporaries \((\S+)\) exceeds available HBM \((\S+)\)")
_LISTED = re.compile(r"^ *\d+\. Size: (\S+)$(.*?)^ *={5,}$", re.MULTILINE | re.DOTALL)
_MOSAIC = re.compile(r"Mosaic failed to compile TPU kernel[^\n]*?: (.*)", re.DOTALL)
#: An error's number and name; MLIR's text of the operation that failed.
_NOISE = re.compile(r"^E\d+: \w+: |(?<=[a-z]'): %\d+ = .*")
_OPERATION = re.compile(
    r'"([a-z_]+\.[a-z_]+)"\(.*?\) *(?:<\{.*?\}> *)?(?:\{.*?\} *)?: *(\(.*)$', re.MULTILINE
)
_FRAME = re.compile(r'"[^"]*"\("([^"]+)":(\d+):\d+')
#: A line of a failed check in libtpu: a letter, date, time, thread and source line before the text.
_FATAL = re.compile(r"F\d{4} [\d:.]+ +\d+ [\w./]+:\d+\] (.*)")
_ABORT_SIGNALS = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def read_refusal(error: BaseException, call: KernelCall) -> LibtpuRefusal:
    """Parse an exception that libtpu raised for a kernel. Never raises."""
    text = str(error)
    for read in (_out_of_vmem, _single_allocation, _out_of_hbm, _unsupported):
        if failure := read(text, error, call):
            return failure
    return LibtpuRefusal(
        LibtpuRefusalKind.INTERNAL, f"{type(error).__name__}: {_first_line(text)}", text
    )


def read_lowering_error(error: BaseException) -> LibtpuRefusal:
    """Parse an exception that jax raised while it lowered the kernel."""
    text = f"{type(error).__name__}: {error}"
    file, place = _place_of(error)
    return LibtpuRefusal(
        LibtpuRefusalKind.LOWERING, _first_line(text), text, file=file, place=place
    )


def read_abort(code: int, printed: str) -> LibtpuRefusal | None:
    """Parse the output of a process that ended while it compiled a kernel.

    None if the exit code doesn't mean that the compiler aborted.
    """
    if -code not in _ABORT_SIGNALS:
        return None
    name, last_message = signal.Signals(-code).name, fatal_message(printed)
    message = f"the TPU's compiler ends without a verdict on it ({name})"
    return LibtpuRefusal(
        LibtpuRefusalKind.ABORT, f"{message}: {last_message}" if last_message else message, printed
    )


def fatal_message(printed: str) -> str:
    """The message of a failed check in libtpu or another Google library; "" if there is none."""
    return next((found[1] for found in map(_FATAL.match, printed.splitlines()) if found), "")


def windows_too_large(call: KernelCall, limit: int) -> LibtpuRefusal:
    """The error that libtpu would give for blocks of more than `limit` bytes together."""
    allocations = (*footprint(call), *scoped_buffers(call))
    wanted = sum(allocation.size for allocation in allocations)
    text = f"{_TOO_MUCH}: blocks and scratch take {wanted:,} bytes, and the limit is {limit:,}"
    return LibtpuRefusal(
        LibtpuRefusalKind.VMEM, _TOO_MUCH, text, wanted=wanted, limit=limit, allocations=allocations
    )


def _out_of_vmem(text: str, _error: BaseException, call: KernelCall) -> LibtpuRefusal | None:
    found = _SCOPED.search(text) or _WHOLE.search(text)
    if not found:
        return None
    listed = [
        (_field(entry[2], "Tag"), _field(entry[2], "Shape"), _bytes(entry[1]))
        for entry in _LISTED.finditer(text)
    ]
    wanted, limit = _bytes(found[1]), _bytes(found[2])
    return LibtpuRefusal(
        LibtpuRefusalKind.VMEM,
        _TOO_MUCH,
        text,
        wanted=wanted,
        limit=limit,
        allocations=named_allocations(listed, call),
    )


def _single_allocation(text: str, _error: BaseException, call: KernelCall) -> LibtpuRefusal | None:
    """A single allocation that is larger than all of the memory."""
    found = _SINGLE.search(text)
    if not found or found[4] not in ("vmem", "smem", "sflag"):
        return None
    size, limit, shape, space, tag = found.groups()
    return LibtpuRefusal(
        LibtpuRefusalKind(space),
        f"one allocation of {int(size):,} bytes, and {space} has {int(limit):,} in all",
        text,
        wanted=int(size),
        limit=int(limit),
        allocations=named_allocations([(tag, shape.partition("{")[0], int(size))], call),
    )


def _out_of_hbm(text: str, _error: BaseException, _call: KernelCall) -> LibtpuRefusal | None:
    if not (found := _HBM.search(text)):
        return None
    message = f"its arrays need {found[1]} of HBM, and {found[2]} are free"
    wanted, limit = _bytes(found[1]), _bytes(found[2])
    return LibtpuRefusal(LibtpuRefusalKind.HBM, message, text, wanted=wanted, limit=limit)


def _unsupported(text: str, error: BaseException, _call: KernelCall) -> LibtpuRefusal | None:
    if not (found := _MOSAIC.search(text)):
        return None
    operation = _OPERATION.search(text)
    file, place = _place_in(text)
    if place is None:
        file, place = _place_of(error)
    return LibtpuRefusal(
        LibtpuRefusalKind.UNSUPPORTED,
        _NOISE.sub("", _first_line(found[1])),
        text,
        operation=operation[1] if operation else "",
        types=operation[2].strip() if operation else "",
        file=file,
        place=place,
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()


def _field(entry: str, name: str) -> str:
    found = re.search(rf"^ *{name}: (.*)$", entry, re.MULTILINE)
    return re.sub(r"\{.*", "", found[1]) if found and name == "Shape" else found[1] if found else ""


def _bytes(size: str) -> int:
    """ "16.00M" and the like; libtpu rounds to two decimals."""
    found = re.match(r"([\d.]+)([KMGTB]?)", size)
    return round(float(found[1].rstrip(".")) * _UNITS[found[2]]) if found else 0


def _place_in(text: str) -> tuple[str, SourceLine | None]:
    """The innermost line of the text's call chain that isn't jax's own."""
    location = re.search(r"loc\((.*)\)$", text, re.MULTILINE)
    frames = _FRAME.findall(location[1]) if location else []
    return _innermost((file, int(line)) for file, line in frames)


def _place_of(error: BaseException) -> tuple[str, SourceLine | None]:
    """The same for the traceback: if jax knows the kernel's lines, they are at its end."""
    return _innermost(reversed(list(_frames(error.__traceback__))))


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next


_OURS = tuple(str(Path(__file__).parents[2] / name) for name in ("pallascope", "grader"))
_LIBRARY = re.compile(r"[/\\](?:jax|jaxlib)[/\\]|^<")


def _innermost(frames: Iterable[tuple[str, int]]) -> tuple[str, SourceLine | None]:
    """The innermost frame that isn't jax's, inside of this package's own frames."""
    for file, line in itertools.takewhile(lambda frame: not frame[0].startswith(_OURS), frames):
        if not _LIBRARY.search(file):
            return file, SourceLine(line, linecache.getline(file, line).strip())
    return "", None
