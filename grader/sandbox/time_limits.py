"""Time limits that a busy machine does not use up, and the second try after a hang or crash.

A limit of T seconds counts CPU time as well as wall time. After T seconds of wall time, the pool
inspects the process:

- If one of its threads has used T seconds of CPU time, the process hangs.
- If all of its threads sleep, and still sleep IDLE seconds later, the process hangs.
- Otherwise the machine has delayed the process, which gets up to MOST * T seconds.

After a hang or a crash, `asked_twice` asks a new process once more. If nothing delayed the first
process, the second gets only a fraction of the time.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pallascope.model import Accident

T = TypeVar("T")

#: Seconds for each step of a hidden case, unless the kata's key has a `timeout`. pytest has its own
#: `timeout` in pyproject.toml.
DEFAULT_SECONDS = 30.0
EARLY = 0.5  # seconds; most answers come sooner, without an inspection
STEP = 0.25  # seconds between two inspections
IDLE = 1.0  # seconds
MOST = 3
ALONE = 1.25  # a thread with a CPU time of at least 1 / ALONE of the wall time wasn't delayed
FRACTION, LEAST = 6, 5.0  # the second try gets T / FRACTION, but at least LEAST seconds
_TICKS = 0.02  # seconds of CPU time that a sleeping process may seem to use
_ASLEEP = "SI"  # the operating system's letters; not "D", which waits for a disk
_USED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):([\d.]+)")  # [[days-]hours:]minutes:seconds


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a process: CPU seconds by thread, and whether all threads sleep."""

    cpu: Mapping[int, float]
    asleep: bool

    def computed(self, since: Look) -> float:
        """The CPU seconds since `since` of the thread that used most."""
        return max(
            (cpu - since.cpu.get(thread, 0.0) for thread, cpu in self.cpu.items()), default=0
        )


class Patience:
    """The wait for an answer from a process, with a limit in `seconds`; None for no limit."""

    def __init__(self, pid: int, seconds: float | None) -> None:
        self._pid, self._seconds = pid, seconds
        #: Whether a busy machine may be the reason that no answer came.
        self.kept_waiting = False

    def waits(self) -> Iterator[float | None]:
        """Yields the seconds to wait next, until it is time to give up."""
        if self._seconds is None:
            yield None
            return
        begun = time.monotonic()
        yield min(EARLY, self._seconds)
        first = look(self._pid)
        yield begun + self._seconds - time.monotonic()
        latest, quiet_since = look(self._pid), time.monotonic()
        while first and latest and time.monotonic() - begun < MOST * self._seconds:
            computed = latest.computed(first)
            if computed >= self._seconds:
                self.kept_waiting = time.monotonic() - begun > ALONE * computed + EARLY
                return
            if time.monotonic() - quiet_since >= IDLE:
                return
            yield STEP
            before, latest = latest, look(self._pid)
            if not (latest and latest.asleep and latest.computed(before) <= _TICKS):
                quiet_since = time.monotonic()
        self.kept_waiting = True


def asked_twice(ask: Callable[[float | None], T | Accident], seconds: float | None) -> T | Accident:
    """The answer to a question with this limit; after a hang or a crash, that of a second try.

    So a machine that lacks time or memory, or a person who ends a process, changes no verdict.
    """
    first = ask(seconds)
    if not (isinstance(first, Accident) and (first.stuck or first.crashed)):
        return first
    if seconds is not None and first.stuck and not first.kept_waiting:
        seconds = min(seconds, max(seconds / FRACTION, LEAST))
    second = ask(seconds)
    stuck_twice = first.stuck and isinstance(second, Accident) and second.stuck
    return first if stuck_twice else second


def look(pid: int) -> Look | None:
    """The current state of a process; None if it is unknown."""
    return _by_proc(pid) if sys.platform == "linux" else _by_ps(pid)


def _by_proc(pid: int) -> Look | None:
    ticks = os.sysconf("SC_CLK_TCK")
    cpu, states = {}, set[str]()
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # of a thread that has just ended
                # number (name) state ... ; the name may hold anything
                told = (thread / "stat").read_text().rpartition(")")[2].split()
                states.add(told[0])
                cpu[int(thread.name)] = (int(told[11]) + int(told[12])) / ticks
    return Look(cpu, states <= set(_ASLEEP)) if cpu else None


def _by_ps(pid: int) -> Look | None:
    """The same for all threads together, on systems without /proc."""
    command = ["ps", "-o", "state=,time=", "-p", str(pid)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    state, _, used = ran.stdout.strip().partition(" ")
    found = _USED.fullmatch(used.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return Look({pid: 86400 * days + 3600 * hours + 60 * minutes + seconds}, state[0] in _ASLEEP)
