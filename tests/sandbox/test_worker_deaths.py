"""What is said of a process that ended by itself, or was ended."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from grader.sandbox import process_limits, worker_pool


@pytest.mark.parametrize(
    ("code", "starved", "phrase", "words"),
    [
        (3, False, "left the process (exit code 3)", "os._exit"),
        (-signal.SIGSEGV, False, "crashed (SIGSEGV)", "bad address"),
        (-signal.SIGKILL, False, "killed (SIGKILL)", "not by the grader"),
        (-signal.SIGKILL, True, "killed: out of memory", "ran out of memory"),
        (-signal.SIGTERM, False, "crashed (SIGTERM)", "Usual reasons"),
        (-40, False, "crashed (signal 40)", "Usual reasons"),
        (None, False, "ended, and its parent process too", "that had started it"),
    ],
    ids=str,
)
def test_an_end_is_told_as_what_it_was(
    code: int | None, starved: bool, phrase: str, words: str
) -> None:
    accident = worker_pool.died(code, None, "", starved)
    assert accident.phrase == phrase
    assert words in accident.message
    assert ("bad address" in accident.message) == (code not in (3, None, -signal.SIGKILL))


def test_an_exit_shows_the_end_of_stderr() -> None:
    """An exception of the worker's, and not os._exit, may have ended it."""
    lines = [*(f"line {number}" for number in range(100)), "PermissionError: not permitted"]
    accident = worker_pool.died(1, None, "", complaint="\n".join(lines))
    assert accident.message.endswith("line 99\n  PermissionError: not permitted")
    assert "line 50" not in accident.message
    assert "os._exit" not in accident.message


def test_processes_killed_for_lack_of_memory_are_counted(tmp_path: Path) -> None:
    counts = tmp_path / "vmstat"
    assert process_limits.kills(counts) == 0
    counts.write_text("nr_free_pages 5\noom_kill 12\noom_kill_other 3\n")
    assert process_limits.kills(counts) == 12


def test_what_never_ends_may_be_work_element_by_element() -> None:
    accident = worker_pool.stopped(30, None, "")
    assert accident.stuck
    assert accident.phrase == "no answer after 30 s"
    assert "a wait without a start" in accident.message
    assert "Compute on whole blocks" in accident.message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says")
def test_private_memory_is_of_a_process_that_is_there() -> None:
    assert process_limits.asked(os.getpid()) > 1 << 20
    assert process_limits.used(os.getpid()) > 1 << 20
    assert process_limits.asked(-1) == process_limits.used(-1) == 0
