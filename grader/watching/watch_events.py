"""The events of `kata watch`: saved files and pressed keys.

What can happen while `kata watch` waits. Each source puts its events into one queue.

The terminal's side of `kata watch`: single keys, without waiting for a line's end.

The file system's side of `kata watch`: which katas have been saved.
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
class Saved:
    """A kata's file was written, or is gone."""

    kata: Kata


@dataclass(frozen=True, slots=True)
class Pressed:
    """A key; "" at the end of the input."""

    key: str


@dataclass(frozen=True, slots=True)
class Graded:
    """A hidden case of one run has its grade."""

    run: int
    grade: Grade


@dataclass(frozen=True, slots=True)
class GradingFailed:
    """A hidden case of one run could not be graded, and that is not the learner's fault."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command beside the watch has ended, and said this."""

    command: int
    code: int
    said: str


@dataclass(frozen=True, slots=True)
class Blind:
    """Saves are no longer seen, or are looked for in another way."""

    why: str


Event = Saved | Pressed | Graded | GradingFailed | CommandEnded | Blind


@contextlib.contextmanager
def keyboard(stream: TextIO, tell: Callable[[Event], None]) -> Iterator[bool]:
    """Tell of every key that is pressed meanwhile; False where `stream` is no terminal.

    Ctrl-C and Ctrl-Z do what they always do. The terminal is left as it was found.
    """
    if not stream.isatty() or sys.platform == "win32":
        yield False
        return
    import termios
    import tty

    number = stream.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number, termios.TCSANOW)
    resumed = signal.signal(
        signal.SIGCONT, lambda *_: tty.setcbreak(number, termios.TCSANOW)
    )  # a shell gives its own settings back with the foreground
    threading.Thread(target=_read, args=(number, tell), name="keyboard", daemon=True).start()
    try:
        yield True
    finally:
        signal.signal(signal.SIGCONT, resumed)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _read(number: int, tell: Callable[[Event], None]) -> None:
    """Read single bytes; what arrow and function keys send is no letter of ours, bar their last."""
    with contextlib.suppress(OSError):
        while pressed := os.read(number, 64):
            if len(pressed) == 1 and pressed != b"\x04":
                tell(Pressed(pressed.decode("latin-1")))
            elif pressed == b"\x04":
                break
    tell(Pressed(""))


#: Milliseconds without a further change, after which a save is taken to be complete.
QUIET = 10
#: Milliseconds between two looks, where the file system tells nothing by itself.
POLL = 150
#: Seconds for an editor that removes a file before it writes the new one.
BETWEEN = 0.1


class Saves(threading.Thread):
    """Tells of every kata's file that is written below `root`, until `close`.

    `poll` looks at all files again and again, for network and shared file systems that tell of no
    change. Where the system refuses to watch (its limit is reached), it is done anyway.
    """

    def __init__(self, root: Path, tell: Callable[[Event], None], poll: bool = False) -> None:
        super().__init__(name="saves", daemon=True)
        self._root = root
        self._tell = tell
        self._poll = poll
        self._end = threading.Event()

    def run(self) -> None:
        try:
            self._watch(self._poll)
        except OSError as error:
            self._tell(Blind(f"{error}: looking at the files every {POLL} ms instead"))
            self._watch(poll=True)

    def _watch(self, poll: bool) -> None:
        import watchfiles  # here, since every `kata` command imports this module

        changes = watchfiles.watch(
            self._root / KATAS,
            watch_filter=None,
            step=QUIET,
            stop_event=self._end,
            force_polling=poll or None,  # None: watchfiles knows where polling is needed
            poll_delay_ms=POLL,
            rust_timeout=500,
            raise_interrupt=False,
        )
        for batch in changes:
            for kata in changed(self._root, (Path(path) for _, path in batch)):
                self._tell(Saved(kata))

    def close(self) -> None:
        """Watch no more; returns once that is so."""
        self._end.set()
        self.join(timeout=2)


def changed(root: Path, paths: Iterable[Path]) -> Iterator[Kata]:
    """The katas of these files, each once, the one written last at the end."""
    # By their last two parts: the system may name the same folder otherwise than `root` does.
    places = (root / KATAS / path.parent.name / path.name for path in paths)
    found = {kata for kata in (kata_at(root, place) for place in places) if kata}
    return iter(sorted(found, key=_written))


def _written(kata: Kata) -> float:
    for pause in (BETWEEN, 0.0):
        try:
            return kata.path.stat().st_mtime
        except OSError:
            time.sleep(pause)
    return 0.0
