"""The folder of one worker: what it writes and prints.

    N/out, N/err    what it prints, and what faulthandler writes; it holds them open
    N/scratch       its own: its current folder, and where its temporary files go

No worker is told of another's. What a learner's code leaves in its folder is read with care: a
link in the place of a file is not followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pallascope.tools.text import printable, shortened

READ_MOST = 1 << 26  # bytes of what a process printed
COMPLAINT_MOST = 1 << 20  # bytes of the end of what it complained


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The files of one worker, below `folder`."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def err(self) -> Path:
        return self.folder / "err"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    @property
    def writable(self) -> tuple[Path, ...]:
        """All that the worker may write."""
        return self.scratch, self.out, self.err

    def make(self) -> None:
        """Make the folder, for this user alone."""
        self.folder.mkdir(mode=0o700)
        self.scratch.mkdir()

    def move_in(self) -> int:
        """Let this process work and print here. It reads nothing from then on.

        Returns a second descriptor of `out`, for `take_printed`: a kata may close the first.
        """
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for file, descriptor in ((self.out, 1), (self.err, 2)):
            opened = os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.chdir(self.scratch)
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.scratch)
        return os.dup(1)

    def take_printed(self, out: int) -> str:
        """What this process has printed since the last time; the file starts anew.

        `out` is the descriptor that `move_in` returned. Every level of isolation allows this:
        where Landlock is older than version 3, the filter refuses to truncate a file by its path.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a kata may have closed it, or replaced it
                stream.flush()
        text = _text(self.out)
        with contextlib.suppress(OSError):  # a kata may have closed this one, too
            os.ftruncate(out, 0)
        return text

    def printed(self) -> str:
        """What the worker has printed and not taken, cut to what anyone reads."""
        return printable(shortened(_text(self.out).strip()))

    def complained(self) -> str:
        """What faulthandler, or a native library, has written."""
        return printable(_text(self.err, COMPLAINT_MOST).strip())

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        removed(self.folder)


def removed(folder: Path) -> None:
    """Remove a folder that learners' code has written to, however deep it is."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # before Python 3.13
        subprocess.run(["rm", "-rf", str(folder)], check=False)


def _text(file: Path, last: int = 0) -> str:
    """The file's text, cut where it is huge, or its `last` bytes; "" where there is none."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with contextlib.suppress(OSError), open(os.open(file, flags), "rb") as opened:
        found = os.fstat(opened.fileno())
        if stat.S_ISREG(found.st_mode) and last:
            opened.seek(max(0, found.st_size - last))
            return opened.read(last).decode(errors="replace")
        if stat.S_ISREG(found.st_mode):
            text = opened.read(READ_MOST).decode(errors="replace")
            return shortened(text, READ_MOST, max(0, found.st_size - READ_MOST))
    return ""
