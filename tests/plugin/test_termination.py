"""Sessions that are ended from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.plugin.start import Terminated, raise_on_sigterm
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


def started(repository: Repository, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    """A session of its own, with a folder for its temporary files."""
    scratch = repository.root / "scratch"
    scratch.mkdir()
    written = f"--kata-json={repository.grades}"
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "grader.plugin", *arguments, *FREE, written],
        cwd=repository.root,
        env={**os.environ, "PYTEST_ADDOPTS": "", "TMPDIR": str(scratch), **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ended(repository: Repository, number: int, *arguments: str) -> int:
    """Start a session, signal it while it grades the second kata; its exit code."""
    process = started(repository, *arguments)
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


#: Python imports this before anything else: workers are started as they are on macOS.
SPAWNS = "from grader.sandbox import launcher\nlauncher.FORKS = False\n"
#: No thread of Python's runs meanwhile.
LOCKED_LOOP = "import re\nre.match('(a+)+$', 'a' * 60 + 'b')"
COMPILED_LOOP = """with jax.ensure_compile_time_eval():
    jax.lax.while_loop(lambda n: n < 10, lambda n: (n + 1) % 5, jax.numpy.int32(0))"""


def workers(root: Path, fork_server: bool) -> dict[int, bytes]:
    """The command lines of the processes below `root`'s driver: all, or all but its fork server."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            told = (entry / "environ").read_bytes() + command
            if str(root).encode() in told and b"grader.sandbox.fork_server" in command:
                found[int(entry.name)] = command
    first = min(found, default=0)
    return {number: found[number] for number in found if fork_server or number != first}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("spawns", [False, True], ids=["forks", "spawns"])
@pytest.mark.parametrize(
    ("loop", "with_fork_server"),
    [(LOCKED_LOOP, False), (COMPILED_LOOP, True)],
    ids=["alone", "with-its-fork-server"],
)
def test_a_killed_session_leaves_nothing(
    repository: Repository, loop: str, with_fork_server: bool, spawns: bool
) -> None:
    """No process; and no folder, which the fork server removes."""
    root = repository.root
    begun = f"import pathlib\npathlib.Path({str(root / 'begun')!r}).touch()"
    repository.solve(repository.add("hangs"), f"{begun}\n{loop}")
    (root / "sitecustomize.py").write_text(SPAWNS if spawns else "")
    process = started(repository, PYTHONPATH=os.pathsep.join([str(root), *sys.path]))
    wait_for((root / "begun").exists)
    assert len(workers(root, fork_server=True)) > 2
    fork_server = set(workers(root, fork_server=True)) - set(workers(root, fork_server=False))
    for number in (process.pid, *(fork_server if with_fork_server else ())):
        os.kill(number, signal.SIGKILL)
    process.wait(SECONDS)
    wait_for(lambda: not workers(root, fork_server=True))
    if not with_fork_server:
        wait_for(lambda: not left(repository))


def test_a_signal_comes_once_and_is_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        take_back = raise_on_sigterm()
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
        raise_on_sigterm()()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
