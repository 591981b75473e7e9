"""Memory that ran out: the operating system then kills a process, and counts that it did."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_COUNTS = Path("/proc/vmstat")


def kills(counts: Path = _COUNTS) -> int:
    """How many processes Linux has killed for lack of memory since it started; 0 elsewhere."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", counts.read_text(), re.MULTILINE):
            return int(found.group(1))
    return 0
