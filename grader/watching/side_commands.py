"""Commands beside the watch: `kata hint` and others, one at a time, in processes of their own."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.watching.events import Ended, Event


class Commands:
    """Runs a module's command line, and tells what it said; a new one ends the one before."""

    #: Of all commands in this process, so that no two ends are taken for each other.
    _numbers = itertools.count(1)

    def __init__(self, root: Path, tell: Callable[[Event], None], colour: bool) -> None:
        self._root = root
        self._tell = tell
        self._colour = colour
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, module: str, *arguments: str) -> int:
        """Run `python -m MODULE ARGUMENTS`; returns its number, which its end carries."""
        self.drop()
        number = next(self._numbers)
        self._running = process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self._root,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # what it starts ends with it
        )
        threading.Thread(target=self._wait, args=(process, number), daemon=True).start()
        return number

    def _environ(self) -> dict[str, str]:
        width = str(shutil.get_terminal_size().columns)
        colour = {"FORCE_COLOR": "1"} if self._colour else {"NO_COLOR": "1"}
        return {**os.environ, "COLUMNS": width, "PYTHONIOENCODING": "utf-8", **colour}

    def _wait(self, process: subprocess.Popen[bytes], number: int) -> None:
        said, _ = process.communicate()
        self._tell(Ended(number, process.returncode, said.decode("utf-8", "replace")))

    def drop(self) -> None:
        """End the command that runs, if one does."""
        if self._running and self._running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, 15)
        self._running = None


def words(arguments: Sequence[str]) -> str:
    """A `kata` command as one would type it."""
    return " ".join(["kata", *arguments])
