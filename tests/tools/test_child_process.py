"""Child processes: whole messages of any size, clear errors, and ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pallascope.tools.child_process import (
    MAX_PRINTED,
    ChildEnded,
    ChildProcess,
    ChildTimeout,
    Connection,
    ConnectionClosed,
    MessageTooLong,
    framed,
    receive,
    send,
)
from tests.support.repositories import ROOT

LARGE = b"x" * (8 << 20)


def pair(max_bytes: int = 1 << 30) -> tuple[Connection, socket.socket]:
    ours, theirs = socket.socketpair()
    return Connection(ours, max_bytes), theirs


def test_messages_arrive_whole_and_in_order() -> None:
    connection, theirs = pair()
    with theirs:
        for message in (b"", b"one", b"two"):
            connection.send(message)
        assert [receive(theirs) for _ in range(3)] == [b"", b"one", b"two"]
        theirs.sendall(framed(b"three") + framed(b"four")[:5])
        assert connection.receive(1) == b"three"
        with pytest.raises(TimeoutError):
            connection.receive(0.01)
        theirs.sendall(framed(b"four")[5:])
        assert connection.receive(1) == b"four"


def test_a_message_that_has_come_is_received_without_waiting() -> None:
    connection, theirs = pair()
    with theirs:
        send(theirs, b"message")
        assert connection.receive(0) == b"message"


def test_large_messages_in_both_directions_do_not_wait_for_each_other() -> None:
    connection, theirs = pair()
    with theirs:
        answering = threading.Thread(target=lambda: (send(theirs, LARGE), receive(theirs)))
        answering.start()
        connection.send(LARGE)
        assert connection.receive(10) == LARGE
        answering.join(10)
        assert not answering.is_alive()


def test_nobody_is_there() -> None:
    connection, theirs = pair()
    theirs.close()
    connection.send(LARGE)
    with pytest.raises(ConnectionClosed):
        connection.receive(1)
    connection.close()
    connection.send(b"")
    with pytest.raises(ConnectionClosed):
        connection.receive(1)


def test_an_answer_that_came_before_the_end_is_received() -> None:
    connection, theirs = pair()
    send(theirs, b"answer")
    theirs.close()
    connection.send(LARGE)
    assert connection.receive(1) == b"answer"
    with pytest.raises(ConnectionClosed):
        connection.receive(1)


def test_half_a_message_is_none() -> None:
    connection, theirs = pair()
    theirs.sendall(framed(b"message")[:-1])
    theirs.close()
    with pytest.raises(ConnectionClosed):
        connection.receive(1)


def _flood(theirs: socket.socket) -> None:
    with contextlib.suppress(OSError):
        theirs.sendall(LARGE)


def test_of_a_message_that_is_too_long_nothing_is_kept() -> None:
    connection, theirs = pair(max_bytes=1 << 20)
    with theirs:
        theirs.sendall((1 << 60).to_bytes(8, "big"))
        threading.Thread(target=lambda: _flood(theirs), daemon=True).start()
        with pytest.raises(MessageTooLong):
            connection.receive(10)
        connection.send(b"while more arrives")
        assert len(connection._received) < 3 << 20
    connection.close()


def test_a_side_that_reads_nothing_is_not_waited_for() -> None:
    connection, theirs = pair()
    with theirs:
        connection.send(LARGE, 0.1)
        with pytest.raises(TimeoutError):
            connection.receive(0.1)
        reading = threading.Thread(target=lambda: send(theirs, receive(theirs)), daemon=True)
        reading.start()
        assert connection.receive(10) == LARGE  # the rest is sent meanwhile


def test_bytes_that_come_one_by_one_do_not_put_the_end_off() -> None:
    connection, theirs = pair()
    ended = threading.Event()

    def trickle() -> None:
        with contextlib.suppress(OSError):
            theirs.sendall((1 << 20).to_bytes(8, "big"))
            while not ended.is_set():
                theirs.sendall(b"x")

    thread = threading.Thread(target=trickle, daemon=True)
    with theirs:
        thread.start()
        with pytest.raises(TimeoutError):
            connection.receive(0.1)
        ended.set()
        thread.join(10)
    connection.close()


# ---- children ----


@dataclass(frozen=True, slots=True)
class Text:
    """A message of these tests."""

    text: str


#: The beginning of a child that answers with the text that it gets, after `does`.
CHILD = """
import os, sys, time
from dataclasses import dataclass
from pallascope.tools import codec
from pallascope.tools.child_process import ParentConnection

@dataclass(frozen=True, slots=True)
class Text:
    text: str

parent = ParentConnection()
while True:
    message = parent.receive()
    {does}
    parent.send(message)
"""


def child(does: str = "pass") -> ChildProcess:
    """A child with this code between each question and its answer."""
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", CHILD.format(does=does), "--"]
    return ChildProcess.running("unused", os.environ, command)


def scratch_of(process: ChildProcess) -> Path:
    assert process._output
    return Path(process._output.name).parent


def test_a_child_answers_and_leaves_nothing() -> None:
    with child("print('printed', flush=True)") as process:
        for text in ("one", "two"):
            process.send(Text(text))
            assert process.answer(Text, 60) == Text(text)
        assert process.printed() == "printed\n" * 2
        folder = scratch_of(process)
        assert folder.exists()
    assert not folder.exists()
    assert gone(process.pid)
    assert process.printed() == "printed\n" * 2
    with pytest.raises(ChildEnded):
        process.answer(Text)


def test_the_output_of_a_child_that_has_removed_its_folder_is_known() -> None:
    with child("print('printed', flush=True)") as process:
        process.send(Text("one"))
        process.answer(Text, 60)
        shutil.rmtree(scratch_of(process))
    assert process.printed() == "printed\n"


def test_a_child_that_hangs_is_killed_with_what_it_started() -> None:
    does = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    with child(f"{does}; time.sleep(600)") as process:
        process.send(Text(""))
        wait_until(lambda: process.printed().endswith("\n"))
        with pytest.raises(ChildTimeout, match=r"no answer within 0.1 s") as caught:
            process.answer(Text, 0.1)
    assert gone(process.pid)
    wait_until(lambda: gone(int(caught.value.printed)))


@pytest.mark.parametrize(
    ("does", "code", "message"),
    [
        (
            "print('no memory', flush=True); os.abort()",
            -signal.SIGABRT,
            "the process ended with SIGABRT: no memory",
        ),
        ("os._exit(3)", 3, "the process ended with exit code 3"),
        ("raise SystemExit('why')", 1, "the process ended with exit code 1: why"),
    ],
)
def test_a_child_that_crashes(does: str, code: int, message: str) -> None:
    with child(does) as process:
        process.send(Text(""))
        with pytest.raises(ChildEnded) as caught:
            process.answer(Text, 60)
    assert (caught.value.code, str(caught.value)) == (code, message)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("b'no message'", "error|ValueError"),
        ("codec.pack(Text(5))", "TypeError"),
        ("codec.pack('text')", "TypeError"),
    ],
)
def test_a_child_that_sends_a_broken_message(message: str, error: str) -> None:
    with child(f"message = {message}") as process:
        process.send(Text(""))
        with pytest.raises(ChildEnded, match=rf"sent a broken message \(({error})\)"):
            process.answer(Text, 60)
    assert gone(process.pid)


def test_of_a_flood_of_output_the_end_is_kept() -> None:
    does = f"sys.stdout.write('x' * {3 * MAX_PRINTED} + 'end'); sys.stdout.flush()"
    with child(does) as process:
        process.send(Text("answer"))
        assert process.answer(Text, 60) == Text("answer")
        printed = process.printed()
    assert printed == "x" * (MAX_PRINTED - 3) + "end"


FORKS = """
import os, sys
from tests.tools.test_child_process import child, Text, gone
process = child()
if os.fork() == 0:
    sys.exit()  # as a fork of a user's process ends: finalizers run
os.wait()
process.send(Text("answer"))
assert process.answer(Text, 60) == Text("answer")
"""


def test_a_fork_does_not_end_its_parents_child() -> None:
    subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, check=True)


#: Prints the number of a child, which is idle or at work, and then waits to be killed.
PARENT = """
import os, sys, time
from pathlib import Path
from pallascope.tools.child_process import ChildProcess
from tests.tools.test_child_process import Text, child
{start}
print(process.pid, flush=True)
time.sleep(600)
"""
MODULES = (
    "pallascope.tpu.compile_process",
    "pallascope.gpu.gpu_compile_process",
    "pallascope.gpu.timed_gpu_process",
)
KINDS = {
    **{name: f"process = ChildProcess.running({name!r}, os.environ)" for name in MODULES},
    "busy": "process = child('while True: pass'); process.send(Text(''))",
    "batch": """
from grader.batch.executor import Setup, WorkerProcess
worker = WorkerProcess(Setup("nowhere", (), "off"))
process = worker.child""",
    "fork-server": """
from grader.sandbox.launcher import Launcher
from grader.verdict import Device
from pallascope.model import Mode
process = Launcher(Device("cpu", Mode.INTERPRET))._server""",
}


@contextlib.contextmanager
def parent(start: str, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that starts a child, and the child's number."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(start=start)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout
        yield process, int(process.stdout.readline())
        process.kill()


@pytest.mark.parametrize("start", KINDS.values(), ids=list(KINDS))
def test_a_child_ends_when_its_parent_is_killed(start: str, tmp_path: Path) -> None:
    """And it removes its files. Sandboxed workers are killed in plugin/test_termination.py."""
    with parent(start, tmp_path) as (process, pid):
        assert not gone(pid)
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: gone(pid))
        wait_until(lambda: not list(tmp_path.iterdir()))


def wait_until(happened: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


def gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has waited for it yet."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        return state.split()[0] in "ZX"
    try:  # there is no such file, or no /proc
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
