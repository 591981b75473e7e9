"""Limits of memory and files of a worker, and ends of orphans.

How much of the machine a worker may take, where no filter of calls can say. Linux alone.
Each limit is this process's own, and cannot be raised again. What is beyond it is refused: an
error in Python, and no harm to others.

Memory that processes hold, and that ran out: the operating system then kills one, and counts.

Ends workers, and what they leave running: a process can leave its group and its parent.
On Linux the orphans of a worker become children of the nearest ancestor that has asked for them,
which is the fork server.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

from grader.sandbox.isolation.seccomp import Libc

MEMORY = 8 << 30  # bytes of private memory; grading a matmul takes about 5 % of it
FILE = 256 << 20  # bytes of each file, what is printed among them
FILES = 1024  # open at a time
THREADS = 4096  # beyond those that all processes of the machine have; root has no such limit


def limit_memory() -> None:
    """Let growth without end fail in this process instead of on the learner's machine.

    On the CPU only: drivers of accelerators map far more than they use.
    """
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_DATA, MEMORY)


def limit_strangers() -> None:
    """What a process that imports a kata may take beside memory."""
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_CORE, 0)  # the kernel writes a crash's memory, wherever it likes
        _lower(resource.RLIMIT_FSIZE, FILE)
        _lower(resource.RLIMIT_NOFILE, FILES)
        if now := _tasks():
            _lower(resource.RLIMIT_NPROC, now + THREADS)


def _lower(which: int, most: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(hard, most)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (most, most))


def _tasks() -> int:
    """How many threads there are on this machine now; 0 where it doesn't say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return 0


_COUNTS = Path("/proc/vmstat")


def asked(pid: int) -> int:
    """Bytes of private memory that a process has asked for, as its limit counts them; 0 where the
    operating system doesn't say."""
    return _pages(pid)[5] * os.sysconf("SC_PAGE_SIZE")


def used(pid: int) -> int:
    """Bytes of memory that a process has filled and that are no file's, those included that it
    shares with the process it was forked from; 0 where the operating system doesn't say."""
    _, resident, of_files, *_ = _pages(pid)
    return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")


def _pages(pid: int) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        return [int(count) for count in Path(f"/proc/{pid}/statm").read_text().split()]
    return [0] * 7


def kills(counts: Path = _COUNTS) -> int:
    """How many processes Linux has killed for lack of memory since it started; 0 elsewhere."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", counts.read_text(), re.MULTILINE):
            return int(found.group(1))
    return 0


_CHILD_SUBREAPER = 36  # prctl's option
SECONDS = 2.0  # for the end of what was killed; what forks faster than that gets away
PAUSE = 0.001


class Child(Protocol):
    """A process that this one has started, as `subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """None while it runs."""
        ...

    def wait(self) -> int:
        """Wait for its end; the exit code, or minus the signal that ended it."""
        ...


def kill_groups(children: Collection[Child]) -> None:
    """Kill these children, each with its process group, and wait for their ends."""
    for child in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    until = time.monotonic() + SECONDS
    while any(child.poll() is None for child in children) and time.monotonic() < until:
        time.sleep(PAUSE)


def adopt_orphans() -> None:
    """Be the parent of all descendants whose own parents end; on Linux alone."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Libc().control(_CHILD_SUBREAPER, 1)


def kill_children(spared: Collection[int] = ()) -> None:
    """Kill this process's children, those that its children leave, and so on, but for `spared`."""
    until = time.monotonic() + SECONDS
    while strays := [child for child in children() if child not in spared]:
        for stray in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stray, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(stray, os.WNOHANG)
        if time.monotonic() > until:
            return
        time.sleep(PAUSE)


def children() -> set[int]:
    """The numbers of this process's children, those that ended unseen among them."""
    try:
        return set(_listed())
    except OSError:
        return set(_found())


def _listed() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def _found() -> Iterator[int]:
    """The same from kernels that keep no such list."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # number (name) state parent ...; the name may hold anything
            if int(entry.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(entry.parent.name)
