"""Limits a worker's memory, files and threads, to the sizes here; ends orphaned processes.

A filter of system calls can't limit amounts, so each worker limits itself; only on Linux. It can't
raise its limits again. Requests beyond a limit fail with a Python error and don't affect others.

If the machine runs out of memory, the operating system kills a process and counts it: see `kills`.

Processes that a worker starts can leave its process group and its parent. On Linux such orphans
become children of the nearest ancestor that adopts them, which is the fork server. It ends them.
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
FILE = 256 << 20  # bytes of each file, including the printed output
FILES = 1024  # open at a time
THREADS = 4096  # in addition to all threads of the machine; root has no such limit


def limit_memory() -> None:
    """Limit this process's memory, so that endless growth doesn't exhaust the machine.

    Only for the CPU: drivers of accelerators map far more memory than they use.
    """
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_DATA, MEMORY)


def limit_strangers() -> None:
    """Limit the files and threads of this process, which imports a kata."""
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_CORE, 0)  # the kernel may write core dumps to any folder
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
    """The number of threads on this machine now; 0 if it is unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return 0


_COUNTS = Path("/proc/vmstat")


def asked(pid: int) -> int:
    """Bytes of private memory that a process has requested, as its limit counts them; 0 if the
    operating system doesn't give them."""
    return _pages(pid)[5] * os.sysconf("SC_PAGE_SIZE")


def used(pid: int) -> int:
    """Bytes of resident memory of a process that don't belong to files; 0 if they are unknown.

    They include memory that it shares with the process that it was forked from.
    """
    _, resident, of_files, *_ = _pages(pid)
    return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")


def _pages(pid: int) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        return [int(count) for count in Path(f"/proc/{pid}/statm").read_text().split()]
    return [0] * 7


def kills(counts: Path = _COUNTS) -> int:
    """The number of processes that Linux has killed for lack of memory; 0 on other systems."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", counts.read_text(), re.MULTILINE):
            return int(found.group(1))
    return 0


_CHILD_SUBREAPER = 36  # prctl's option
SECONDS = 2.0  # for killed processes to end; a faster chain of forks escapes
PAUSE = 0.001


class Child(Protocol):
    """A process that this one has started, such as a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """None while it runs."""
        ...

    def wait(self) -> int:
        """Wait for its end; the exit code, or minus the signal that ended it."""
        ...


def kill_groups(children: Collection[Child]) -> None:
    """Kill these children, each with its process group, and wait until they end."""
    for child in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    until = time.monotonic() + SECONDS
    while any(child.poll() is None for child in children) and time.monotonic() < until:
        time.sleep(PAUSE)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents end; only on Linux."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Libc().control(_CHILD_SUBREAPER, 1)


def kill_children(spared: Collection[int] = ()) -> None:
    """Kill this process's children except `spared`, then the orphans of those, and so on."""
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
    """The numbers of this process's children, including zombies."""
    try:
        return set(_listed())
    except OSError:
        return set(_found())


def _listed() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def _found() -> Iterator[int]:
    """The same on kernels that have no such list."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # number (name) state parent ...; the name may hold anything
            if int(entry.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(entry.parent.name)
