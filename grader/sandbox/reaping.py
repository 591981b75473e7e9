"""Ends workers, and what they leave running: a process can leave its group and its parent.

On Linux the orphans of a worker become children of the nearest ancestor that has asked for them,
which is the zygote.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

from grader.sandbox.isolation.libc import Libc

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


def end_with_driver(driver: int) -> None:
    """End this process when the other end of a pipe closes, even if it runs compiled code.

    The zygote does the same, also to a process whose main thread never releases Python's lock. This
    is for when the zygote was killed together with the driver.
    """
    end, read = os._exit, os.read  # before a kata's file could put its own there

    def watch() -> None:
        with contextlib.suppress(OSError):
            while read(driver, 1):
                pass
            end(1)

    threading.Thread(target=watch, daemon=True).start()


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
