"""Memory that processes hold, and that ran out: the operating system then kills one, and counts."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

_COUNTS = Path("/proc/vmstat")


def private(pid: int) -> int:
    """Bytes of private memory that a process has asked for, as its limit counts them; 0 where the
    operating system doesn't say."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        pages = Path(f"/proc/{pid}/statm").read_text().split()[5]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def kills(counts: Path = _COUNTS) -> int:
    """How many processes Linux has killed for lack of memory since it started; 0 elsewhere."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", counts.read_text(), re.MULTILINE):
            return int(found.group(1))
    return 0
