"""Memory that processes hold, and that ran out: the operating system then kills one, and counts."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

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
