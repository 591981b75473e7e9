"""How long a process is waited for that hangs, is busy, or is kept waiting by its machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from grader.sandbox import time_limits
from grader.sandbox.time_limits import (
    EARLY,
    IDLE,
    MOST,
    STEP,
    Look,
    Patience,
)

SECONDS = 30.0


@dataclass
class Machine:
    """A process in a simulation, and the clock beside it; `look` is of so many seconds after."""

    look_at: Callable[[float], Look | None]
    now: float = 1000.0

    def look(self, _pid: int) -> Look | None:
        return self.look_at(self.now - 1000.0)


def computing(share: float) -> Callable[[float], Look]:
    """One thread that never sleeps, and has this share of a core; others sleep."""
    return lambda seconds: Look({1: 7.0, 2: 100.0 + share * seconds}, False)


def sleeping(seconds: float) -> Look:
    """It computes for two seconds, and then waits for something."""
    return Look({1: min(seconds, 2.0), 2: 5.0}, seconds > 2.0)


def stopped(_seconds: float) -> Look:
    return Look({1: 1.0}, False)


def late(seconds: float) -> Look:
    """It sleeps, and computes for ever from just after its time."""
    return Look({1: max(0.0, seconds - SECONDS - 0.5)}, seconds < SECONDS + 0.5)


@pytest.mark.parametrize(
    ("look_at", "waited", "kept_waiting"),
    [
        (computing(1.0), SECONDS + EARLY, False),
        (computing(0.9), SECONDS / 0.9 + EARLY, False),
        (computing(0.5), 2 * SECONDS + EARLY, True),
        (computing(0.1), MOST * SECONDS, True),
        (sleeping, SECONDS + IDLE, False),
        (stopped, MOST * SECONDS, True),
        (late, 2 * SECONDS + 0.5, True),
        (lambda _: None, SECONDS, True),
    ],
    ids=["spins", "spins-nearly-alone", "half-a-core", "a-tenth", "sleeps", "stopped", "late", "?"],
)
def test_a_process_has_its_seconds(
    monkeypatch: pytest.MonkeyPatch,
    look_at: Callable[[float], Look | None],
    waited: float,
    kept_waiting: bool,
) -> None:
    """A hang ends soon after its time; one that the machine keeps waiting has up to MOST times."""
    machine = Machine(look_at)
    monkeypatch.setattr(time_limits, "look", machine.look)
    monkeypatch.setattr(time, "monotonic", lambda: machine.now)
    of = Patience(1, SECONDS)
    for seconds in of.waits():
        assert seconds is not None
        machine.now += seconds
    assert waited <= machine.now - 1000.0 <= waited + 2 * STEP
    assert of.kept_waiting == kept_waiting


def test_without_a_limit_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time_limits, "look")
    assert list(Patience(1, None).waits()) == [None]


@pytest.fixture(params=[time_limits._by_proc, time_limits._by_ps], ids=["proc", "ps"])
def look(request: pytest.FixtureRequest) -> Callable[[int], Look | None]:
    if request.param is time_limits._by_proc and sys.platform != "linux":
        pytest.skip("there is no /proc")
    return request.param


@pytest.fixture
def process() -> Iterator[Callable[[str], int]]:
    """Starts Python with a program, which prints once it is there."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> int:
        command = [sys.executable, "-c", f"print(flush=True)\n{code}"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert started[-1].stdout
        started[-1].stdout.readline()
        return started[-1].pid

    yield start
    for each in started:
        each.kill()
        each.communicate()


def seen(look: Callable[[int], Look | None], pid: int, what: Callable[[Look], bool]) -> bool:
    """Whether a process is seen like this before long: it may not be there yet."""
    for _ in range(600):
        if (found := look(pid)) and what(found):
            return True
        time.sleep(0.1)
    return False


def test_what_a_process_does_is_seen(
    look: Callable[[int], Look | None], process: Callable[[str], int]
) -> None:
    spins, sleeps = process("while True: pass"), process("import time; time.sleep(1000)")
    first = look(spins)
    assert first
    assert seen(look, spins, lambda now: now.computed(first) >= 1 and not now.asleep)
    assert seen(look, sleeps, lambda now: now.asleep)
    os.kill(sleeps, signal.SIGSTOP)
    assert seen(look, sleeps, lambda now: not now.asleep)
    assert look(2**22 + 1) is None


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("S    0:03.25", 3.25), ("R+ 01:02:03", 3723), ("R  1-00:00:01", 86401), ("Z ", None)],
)
def test_ps_counts_in_several_ways(
    monkeypatch: pytest.MonkeyPatch, told: str, seconds: float | None
) -> None:
    ran = subprocess.CompletedProcess([], 0, stdout=f"{told}\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ran)
    found = time_limits._by_ps(1)
    assert (found and found.cpu[1]) == seconds
