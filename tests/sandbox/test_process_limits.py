"""How much a worker may take."""

from __future__ import annotations

import bdb
import subprocess
import sys
import threading
from pathlib import Path

import jax
import pytest

from grader.sandbox import trace_worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these limits")

LIMITED = """
import resource
from grader.sandbox import process_limits as limits
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
limits.limit_strangers()
limits.limit_memory()
for name in ("CORE", "FSIZE", "NOFILE", "DATA"):
    soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
    assert soft == hard
    print(name, hard)
try:
    with open("file", "wb") as file:
        file.truncate(limits.FILE + 1)
except OSError as error:
    print(error.strerror)
"""


def test_limits_are_lowered_for_good(tmp_path: Path) -> None:
    """A limit that was lower already stays."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ran.stdout.splitlines()
    assert lines[:4] == ["CORE 0", f"FSIZE {256 << 20}", "NOFILE 200", f"DATA {8 << 30}"]
    assert lines[4] == "File too large"


def test_many_threads_of_a_file_raise_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name in (
        (threading.Thread, "start"),
        (bdb.Bdb, "set_trace"),
        (jax.debug, "breakpoint"),
    ):
        monkeypatch.setattr(where, name, getattr(where, name))  # restores it
    trace_worker.refuse()
    end = threading.Event()

    def start_many() -> None:
        for _ in range(300):
            threading.Thread(target=end.wait, daemon=True).start()

    try:
        with pytest.raises(trace_worker.TooManyThreads, match="128 threads are running"):
            start_many()
    finally:
        end.set()
