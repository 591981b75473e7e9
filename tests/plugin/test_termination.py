"""Sessions that are ended from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.plugin.termination import Terminated, end_orderly
from tests.support.repositories import Repository

SECONDS = 60


def wait_for(happened: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


#: Else a kata could not say that it has begun.
FREE = ("--kata-isolation", "off")


@pytest.fixture
def hanging(repository: Repository) -> Repository:
    """A good kata, and one that hangs and says so by a file."""
    repository.solve(repository.add("good", number=1))
    begun = f"import pathlib\npathlib.Path({str(repository.root / 'begun')!r}).touch()"
    repository.solve(repository.add("hangs", number=2), f"{begun}\nwhile True:\n    pass")
    return repository


def ended(repository: Repository, number: int, *arguments: str) -> int:
    """Start a session, signal it while it grades the second kata; its exit code."""
    scratch = repository.root / "scratch"
    scratch.mkdir()
    written = f"--kata-json={repository.grades}"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "grader.plugin", *arguments, *FREE, written],
        cwd=repository.root,
        env={**os.environ, "PYTEST_ADDOPTS": "", "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for((repository.root / "begun").exists)
    process.send_signal(number)
    return process.wait(SECONDS)


def left(repository: Repository) -> list[Path]:
    return list((repository.root / "scratch").glob("pallas-katas-*"))


@pytest.mark.parametrize("arguments", [[], ["-n", "1"]], ids=["one-process", "xdist"])
def test_sigterm_writes_what_was_graded_and_tidies_up(
    hanging: Repository, arguments: list[str]
) -> None:
    assert ended(hanging, signal.SIGTERM, *arguments) == pytest.ExitCode.INTERRUPTED
    grades = json.loads(hanging.grades.read_text())["grades"]
    assert [grade["kata"] for grade in grades] == ["1_first/kata_01_good"] * 3
    wait_for(lambda: not left(hanging))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no zygote")
def test_a_killed_session_leaves_no_folder(hanging: Repository) -> None:
    assert ended(hanging, signal.SIGKILL) == -signal.SIGKILL
    wait_for(lambda: not left(hanging))


def test_a_signal_comes_once_and_is_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        take_back = end_orderly()
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # ignored: the end has begun
        take_back()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_handler_is_left_alone() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        end_orderly()()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
