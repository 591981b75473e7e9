"""Starts worker processes through a fork server, in a session's temporary folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from grader.sandbox import fork_server
from grader.sandbox.fork_server import HasEnded, StartWorker, WaitForEnd
from grader.sandbox.isolation import Isolation
from grader.sandbox.messages import WorkerRole
from grader.sandbox.worker_environment import WorkerFiles, environment, removed
from grader.verdict import Device
from pallascope.tools.child_process import ChildProcess, ConnectionClosed

FORKS = sys.platform == "linux"
BOOT_SECONDS = 120  # for importing jax on a slow disk
CLOSE_SECONDS = 5.0  # for a fork server to end its workers
UNSEEN_SECONDS = 2  # for the end of a killed process whose fork server has died
TRIES = 3  # fork servers that are started for one worker


class SandboxError(RuntimeError):
    """No worker could be started: jax is missing or broken, or has chosen another backend."""


class Process:
    """A worker's process, a child of the fork server."""

    def __init__(self, pid: int, server: ChildProcess) -> None:
        self.pid = pid
        self._server = server

    def ended(self) -> bool:
        """Whether it has ended."""
        answer = _answer(self._server, HasEnded(self.pid))
        return self._gone() if answer is None else bool(answer)

    def wait(self) -> int | None:
        """Wait for its end. Returns the exit code, or minus the signal that ended it.

        None if the fork server has died.
        """
        code = _answer(self._server, WaitForEnd(self.pid))
        if code is None:
            self._end_unseen()
        return code

    def _end_unseen(self) -> None:
        """Kill it. Only the fork server could have waited for its end, but it has died."""
        until = time.monotonic() + UNSEEN_SECONDS
        while not self._gone() and time.monotonic() < until:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)

    def _gone(self) -> bool:
        """Whether the process has ended, even if its parent hasn't waited for it."""
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2]
            return state.split()[0] in "ZX"
        try:  # there is no such file, or no /proc
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False


def _answer(
    server: ChildProcess, order: HasEnded | WaitForEnd | StartWorker, descriptor: int = -1
) -> int | None:
    """The fork server's answer; None if it has died."""
    with contextlib.suppress(ConnectionClosed, OSError):
        server.send(order)
        if descriptor >= 0:
            server.connection.send_descriptor(descriptor)
        return server.answer(int)
    return None


class Launcher:
    """Starts worker processes: forks of a fork server where forking is safe, else new processes.

    The fork server imports jax immediately; if it dies later, a new one starts. The processes write
    to `folder`, which is removed when they end.
    """

    def __init__(
        self,
        device: Device,
        environ: Mapping[str, str] = os.environ,
        isolation: Isolation = Isolation.AUTO,
    ) -> None:
        self.device = device
        self._isolation = isolation
        self.folder = Path(tempfile.mkdtemp(prefix="pallas-katas-"))
        self._environ = environment(device, environ)
        self._workers = 0
        self._server = self._started()
        self._has_forked = False

    def _started(self) -> ChildProcess:
        command = [sys.executable, "-m", fork_server.__name__, "fork" if FORKS else "spawn"]
        return ChildProcess(
            [*command, str(self.folder), self._isolation.value],
            self._environ,
            output=self.folder / "fork_server.err",
            grace=CLOSE_SECONDS,
        )

    def new_files(self) -> WorkerFiles:
        """Make the folder of the next worker."""
        self._workers += 1
        files = WorkerFiles(self.folder / str(self._workers))
        files.make()
        return files

    def start(self, theirs: socket.socket, files: WorkerFiles, role: WorkerRole) -> Process:
        """Start a worker with a role, which serves the socket `theirs`. Raises SandboxError."""
        order = StartWorker(role, int(files.folder.name))
        for _ in range(TRIES):
            if pid := _answer(self._server, order, theirs.fileno()):
                self._has_forked = True
                return Process(pid, self._server)
            if not self._has_forked and self.printed():
                break  # it could not even start, and has printed why
            self._server.close()
            self._server, self._has_forked = self._started(), False
        raise SandboxError(self.printed() or "the process that imports jax has died")

    def printed(self) -> str:
        """The fork server's output, such as why it could not start."""
        return self._server.printed().strip()

    def close(self) -> None:
        """End the fork server and all of its workers; remove their files."""
        self._server.close()
        removed(self.folder)
