"""What workers leave running: a process can leave its group and its parent, not its zygote.

On Linux the orphans of a worker become children of the nearest ancestor that has asked for them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from grader.sandbox.isolation.libc import Libc

_CHILD_SUBREAPER = 36  # prctl's option
SECONDS = 2.0  # for the end of what was killed; what forks faster than that gets away
PAUSE = 0.001


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
