"""The terminal's side of `kata watch`: single keys, without waiting for a line's end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from grader.watching.events import Event, Pressed


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
