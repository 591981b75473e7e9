"""How much of the machine a worker may take, where no filter of calls can say. Linux alone.

Each limit is this process's own, and cannot be raised again. What is beyond it is refused: an
error in Python, and no harm to others.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

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
