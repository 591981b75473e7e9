"""The events of `kata watch`, and two sources of them: the keyboard and the file system.

All sources post their events into one queue.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from grader.exercise.catalog import KATAS, Kata, kata_at
from grader.verdict import Grade


@dataclass(frozen=True, slots=True)
class FileSaved:
    """A kata's file was written or deleted."""

    kata: Kata


@dataclass(frozen=True, slots=True)
class KeyPressed:
    """A key was pressed; "" at the end of the input."""

    key: str


@dataclass(frozen=True, slots=True)
class Graded:
    """A hidden case of a run was graded."""

    run: int
    grade: Grade


@dataclass(frozen=True, slots=True)
class GradingFailed:
    """A hidden case of a run could not be graded. It isn't the learner's fault."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A background command has ended with this exit code and output."""

    command: int
    code: int
    output: str


@dataclass(frozen=True, slots=True)
class WatchWarning:
    """Saved files are no longer noticed, or are noticed in another way."""

    why: str


Event = FileSaved | KeyPressed | Graded | GradingFailed | CommandEnded | WatchWarning


@contextlib.contextmanager
def keyboard(stream: TextIO, post_event: Callable[[Event], None]) -> Iterator[bool]:
    """Post every key that is pressed while the block runs. Yields False if there is no terminal.

    Ctrl-C and Ctrl-Z work as usual. The terminal's settings are restored afterwards.
    """
    if not stream.isatty() or sys.platform == "win32":
        yield False
        return
    import termios
    import tty

    fd = stream.fileno()
    settings = termios.tcgetattr(fd)
    tty.setcbreak(fd, termios.TCSANOW)
    old_handler = signal.signal(
        signal.SIGCONT, lambda *_: tty.setcbreak(fd, termios.TCSANOW)
    )  # a shell restores its own settings when the process returns to the foreground
    threading.Thread(target=_read_keys, args=(fd, post_event), name="keyboard", daemon=True).start()
    try:
        yield True
    finally:
        signal.signal(signal.SIGCONT, old_handler)
        termios.tcsetattr(fd, termios.TCSADRAIN, settings)


def _read_keys(fd: int, post_event: Callable[[Event], None]) -> None:
    """Post single bytes. Arrow and function keys send several bytes, which are ignored."""
    with contextlib.suppress(OSError):
        while pressed := os.read(fd, 64):
            if len(pressed) == 1 and pressed != b"\x04":
                post_event(KeyPressed(pressed.decode("latin-1")))
            elif pressed == b"\x04":
                break
    post_event(KeyPressed(""))


#: A save is complete after this many milliseconds without another change.
DEBOUNCE_MS = 10
#: Milliseconds between two polls.
POLL_MS = 150
#: Seconds to wait for editors that delete a file before they write the new one.
REPLACE_SECONDS = 0.1


class FileWatcher(threading.Thread):
    """Posts an event for every kata that is saved below `root`, until `close`.

    With `poll`, it compares all files periodically, for network file systems that don't report
    changes. It also polls if the system refuses to watch, because its limit is reached.
    """

    def __init__(self, root: Path, post_event: Callable[[Event], None], poll: bool = False) -> None:
        super().__init__(name="saves", daemon=True)
        self._root = root
        self._post_event = post_event
        self._poll = poll
        self._end = threading.Event()

    def run(self) -> None:
        try:
            self._watch(self._poll)
        except OSError as error:
            self._post_event(
                WatchWarning(f"{error}: checking the files every {POLL_MS} ms instead")
            )
            self._watch(poll=True)

    def _watch(self, poll: bool) -> None:
        import watchfiles  # here, because every `kata` command imports this module

        changes = watchfiles.watch(
            self._root / KATAS,
            watch_filter=None,
            step=DEBOUNCE_MS,
            stop_event=self._end,
            force_polling=poll or None,  # None: watchfiles knows where polling is needed
            poll_delay_ms=POLL_MS,
            rust_timeout=500,
            raise_interrupt=False,
        )
        for batch in changes:
            for kata in changed_katas(self._root, (Path(path) for _, path in batch)):
                self._post_event(FileSaved(kata))

    def close(self) -> None:
        """Stop watching, and wait until the thread has ended."""
        self._end.set()
        self.join(timeout=2)


def changed_katas(root: Path, paths: Iterable[Path]) -> Iterator[Kata]:
    """The katas of these files, without repetitions, sorted by the time of their last change."""
    # Only the last two parts count: the system may use another name for the same folder.
    files = (root / KATAS / path.parent.name / path.name for path in paths)
    found = {kata for kata in (kata_at(root, file) for file in files) if kata}
    return iter(sorted(found, key=_modified))


def _modified(kata: Kata) -> float:
    for pause in (REPLACE_SECONDS, 0.0):
        try:
            return kata.path.stat().st_mtime
        except OSError:
            time.sleep(pause)
    return 0.0
