"""How long an answer is waited for: in seconds of the process's own time, not of the clock's alone.

On a busy machine a process has a core for a fraction of the time, and a person can stop it for a
while. So when the seconds of a question are over, its process is looked at:

- if one of its threads has computed for so many seconds, it hangs;
- if all of its threads sleep, and go on to sleep for IDLE seconds, it hangs;
- otherwise the machine has kept it waiting, and it is waited for, at most MOST times as long.

Whatever happened, `asked_twice` asks once more before there is an accident to report. A process
that hung although nothing kept it waiting has a fraction of the time then: it costs little to be
sure.
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

from grader.model import Accident

T = TypeVar("T")

EARLY = 0.5  # seconds, by which most answers are there: it costs nothing to wait for them
STEP = 0.25  # seconds between two looks
IDLE = 1.0
MOST = 3
ALONE = 1.25  # a process that has computed for 1 / ALONE of the time has had a core to itself
#: Of what a second try is given: the fraction, and the least seconds.
FRACTION, LEAST = 6, 5.0
_TICKS = 0.02  # seconds: of a process that sleeps, the operating system may count so much
_ASLEEP = "SI"  # as the operating system calls it; not "D", which waits for a disk
_USED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):([\d.]+)")  # [[days-]hours:]minutes:seconds


@dataclass(frozen=True, slots=True)
class Look:
    """A process at one moment: CPU seconds by thread, and whether all of them sleep."""

    cpu: Mapping[int, float]
    asleep: bool

    def computed(self, since: Look) -> float:
        """The CPU seconds since then of the thread that has had most."""
        return max(
            (cpu - since.cpu.get(thread, 0.0) for thread, cpu in self.cpu.items()), default=0
        )


class Patience:
    """Waits for one answer of a process, `seconds` of its own; None for ever."""

    def __init__(self, pid: int, seconds: float | None) -> None:
        self._pid, self._seconds = pid, seconds
        #: Whether the machine is to blame, as far as anybody can tell.
        self.kept_waiting = False

    def waits(self) -> Iterator[float | None]:
        """How long to wait next, time and again, until no answer is to be expected."""
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
    """What comes of asking within so many seconds, or once more where a process hung or crashed.

    A machine that is short of time or memory, or a person who ends a process, decides no verdict.
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
    """A process as it is now; None where the operating system doesn't tell."""
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
    """The same of all threads together, where there is no /proc."""
    command = ["ps", "-o", "state=,time=", "-p", str(pid)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    state, _, used = ran.stdout.strip().partition(" ")
    found = _USED.fullmatch(used.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return Look({pid: 86400 * days + 3600 * hours + 60 * minutes + seconds}, state[0] in _ASLEEP)
