"""SIGTERM, with which a workflow or an editor stops pytest: an orderly end, as by Ctrl-C.

Left to itself it would end the process at once: no grades written, no temporary files removed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM has come. pytest ends its session then, tells what it knows, exits with 2."""


def end_orderly() -> Callable[[], None]:
    """From now on SIGTERM raises Terminated, once; returns what takes that back.

    Whoever has a handler already keeps it, and so does a pytest that isn't in the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, _terminate)
    return _restore


def _terminate(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end has begun
    raise Terminated("SIGTERM")


def _restore() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
