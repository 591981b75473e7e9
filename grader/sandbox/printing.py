"""What a worker's code prints: read from the file that stands for its stdout."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class Printed:
    """The text that has been printed to `out`."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def take(self) -> str:
        """What was printed since the last look; the file starts anew."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        text = self._out.read_text(encoding="utf-8", errors="replace")
        os.truncate(self._out, 0)
        return text
