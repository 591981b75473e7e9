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
    """The processes that were started with this mark in their environment."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in entry.read_bytes():
                yield int(entry.parent.name)


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


@pytest.mark.parametrize("does", [HANGS, FORKS], ids=["hangs", "forks"])
def test_a_killed_driver_leaves_nothing_and_loses_nothing(
    does: str, repository: Repository
) -> None:
    kata = repository.add("double", key=f"timeout = 1\n{Repository.KEY}")
    begun, samples = repository.root / "begun", repository.root / "samples.jsonl"
    scratch = repository.root / "scratch"
    scratch.mkdir()
    stuck = f"import os\nopen({str(begun)!r}, 'w').close()\n{does}\n{kata.solution.read_text()}"
    texts = [kata.shipped(), stuck, f"{kata.shipped()}\n# another"]
    rows = [{"task_id": kata.id, "completion": text} for text in texts]
    samples.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    mark = f"mark={uuid.uuid4()}"
    command = [sys.executable, "-m", "grader.cli", "grade", str(samples), "--out", "out.jsonl"]
    command += ["--workers=1", "--isolation=off", "--seed=1"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "MARK": mark}

    with subprocess.Popen(command, cwd=repository.root, env=environ) as driver:
        wait_until(True, str(begun))
        os.kill(driver.pid, signal.SIGKILL)
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
