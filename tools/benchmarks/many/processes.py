"""The processes of one run, known by its folder; from /proc.

Ray's processes and the driver inherit a variable. The grader hides all variables from the katas'
processes, but the command line of each names its folder, which lies in the run's.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARK = "GRADE_MANY_RUN"
WORKERS = ("grader.batch.batch_worker", "ray::Node")  # of this machine, of a Ray node
GRADES = (*WORKERS, "grader.sandbox.fork_server")
DRIVES = "grader.cli"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one moment. `own` and `waited` are CPU seconds: its own, and its children's."""

    pid: int
    parent: int
    began: str
    command: str
    own: float
    waited: float

    @property
    def role(self) -> str:
        """Of "grader", "driver", "ray"."""
        if any(word in self.command for word in GRADES):
            return "grader"
        return "driver" if DRIVES in self.command else "ray"


def running(mark: str) -> Iterator[Seen]:
    """Every process of the run whose folder this is, but for this one."""
    variable = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            inherited = (folder / "environ").read_bytes().split(b"\0")
            if variable not in inherited and mark not in command:
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z":
            continue
        times = [int(ticks) / TICKS for ticks in fields[11:15]]
        yield Seen(
            int(folder.name), int(fields[1]), fields[19], command, sum(times[:2]), sum(times[2:])
        )


def descendants(pid: int, seen: list[Seen]) -> list[Seen]:
    """A process and all that it and its children have started, as far as they still are there."""
    found = {pid}
    while more := {one.pid for one in seen if one.parent in found} - found:
        found |= more
    return [one for one in seen if one.pid in found]


def private_mib(seen: list[Seen]) -> dict[str, float]:
    """Memory by role, in MiB; what several processes share is divided among them."""
    found = {"grader": 0.0, "driver": 0.0, "ray": 0.0}
    for one in seen:
        try:
            lines = Path(f"/proc/{one.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        sizes = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
        found[one.role] += sum(sizes) / 1024
    return found


def kill_all(mark: str) -> None:
    """End what is left of a run."""
    until = time.monotonic() + 20
    while (left := list(running(mark))) and time.monotonic() < until:
        for one in left:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.2)


@dataclass(slots=True)
class Clock:
    """CPU seconds by role, of processes that come and go; looked at every second or so.

    A worker of the grader is counted with all that it has started. What a process did between the
    last look and its end is lost.
    """

    _most: dict[tuple[str, int, str], float] = field(default_factory=dict)

    def look(self, seen: list[Seen]) -> None:
        here = {one.pid: one for one in seen}
        totals: dict[tuple[str, int, str], float] = {}
        for one in seen:
            top = _worker(one, here) if one.role == "grader" else one
            if top is None:
                continue
            key = (one.role, top.pid, top.began)
            spent = one.own + (one.waited if one.role == "grader" else 0.0)
            totals[key] = totals.get(key, 0.0) + spent
        for key, spent in totals.items():
            self._most[key] = max(spent, self._most.get(key, 0.0))

    def seconds(self, role: str) -> float:
        return sum(spent for key, spent in self._most.items() if key[0] == role)


def _worker(one: Seen, here: dict[int, Seen]) -> Seen | None:
    """The worker that a process of the grader descends from; None if that has died."""
    at: Seen | None = one
    while at and not any(word in at.command for word in WORKERS):
        at = here.get(at.parent)
    return at
