"""`kata grade` killed as nothing can be caught: nobody stays, and the next run does the rest."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repositories import ROOT, Repository

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HANGS = "while True: pass"
FORKS = """for _ in range(3):
    if not os.fork():
        os.setsid()
import time
time.sleep(600)"""


def descendants(mark: str) -> Iterator[int]:
    """The processes whose environment or command line names the folder of this mark.

    Those that grade are given no environment but what they need; a fork keeps its parent's words.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            if mark.encode() in told:
                yield int(entry.name)


def wait_until(there: bool, what: str, seconds: float = 60) -> None:
    """Until a file is there, or no process of a mark is."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if there and Path(what).exists():
            return
        if not there and not list(descendants(what)):
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}: {list(descendants(what))}")


def workers(mark: str) -> Iterator[int]:
    """Those of the marked processes that are an executor's workers."""
    for number in descendants(mark):
        with contextlib.suppress(OSError):
            if b"grader.batch.batch_worker" in Path(f"/proc/{number}/cmdline").read_bytes():
                yield number


@pytest.mark.parametrize(
    ("does", "and_workers"),
    [(HANGS, False), (FORKS, True)],
    ids=["hangs", "forks-and-its-worker-is-killed-too"],
)
def test_a_killed_driver_leaves_nothing_and_loses_nothing(
    does: str, and_workers: bool, repository: Repository
) -> None:
    kata = repository.add("double", key=f"timeout = 1\n{Repository.KEY}")
    begun, samples = repository.root / "begun", repository.root / "samples.jsonl"
    mark = f"scratch-{uuid.uuid4()}"
    scratch = repository.root / mark
    scratch.mkdir()
    stuck = f"import os\nopen({str(begun)!r}, 'w').close()\n{does}\n{kata.solution.read_text()}"
    texts = [kata.stub_text(), stuck, f"{kata.stub_text()}\n# another"]
    rows = [{"task_id": kata.id, "completion": text} for text in texts]
    samples.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = [sys.executable, "-m", "grader.cli", "grade", str(samples), "--out", "out.jsonl"]
    command += ["--workers=1", "--isolation=off", "--seed=1"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}

    with subprocess.Popen(command, cwd=repository.root, env=environ) as driver:
        wait_until(True, str(begun))
        victims = [*workers(mark)] if and_workers else []
        assert len(victims) == and_workers
        for victim in (driver.pid, *victims):
            os.kill(victim, signal.SIGKILL)
    wait_until(False, mark)
    assert not list(scratch.iterdir())

    again = subprocess.run(
        command, cwd=repository.root, env=environ, capture_output=True, text=True, check=True
    )
    assert "2 submissions to judge, 1 in the store" in again.stdout
    found = map(json.loads, (repository.root / "out.jsonl").read_text().splitlines())
    assert [each["finding"] and each["finding"]["phrase"] for each in found] == [
        *(None, "no answer after 1 s", None)
    ]
    wait_until(False, mark)
    assert not list(scratch.iterdir())
