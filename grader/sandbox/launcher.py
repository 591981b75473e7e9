"""Starts worker processes through a fork server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from grader.sandbox import fork_server
from grader.sandbox.devices import environment
from grader.sandbox.fork_server import (
    NUMBER,
    ORDER,
    POLL,
    POSTS,
    START,
    WAIT,
)
from grader.sandbox.isolation import Isolation
from grader.sandbox.messages import WorkerRole
from grader.sandbox.worker_files import WorkerFiles, removed
from grader.verdict import Device

FORKS = sys.platform == "linux"
BOOT_SECONDS = 120  # for importing jax on a slow disk
UNSEEN_SECONDS = 2  # for the end of a killed process that nobody can be asked about
TRIES = 3  # zygotes that are started for one worker


class SandboxError(RuntimeError):
    """No worker could be started: jax is missing or broken, or the backend is another one."""


class Process:
    """A worker's process. The zygote has started it, and is asked about it."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control

    def ended(self) -> bool:
        """Whether it has ended, by now."""
        answer = self._ask(POLL)
        return self._gone() if answer is None else bool(answer)

    def wait(self) -> int | None:
        """Wait for its end; the exit code, or minus the signal that ended it.

        None where nobody saw it end.
        """
        code = self._ask(WAIT)
        if code is None:
            self._end_unseen()
        return code

    def _ask(self, order: bytes) -> int | None:
        """What the zygote answers; None if it has died."""
        with contextlib.suppress(OSError):
            self._control.sendall(ORDER.pack(order, self.pid, 0))
            if answer := self._control.recv(NUMBER.size):
                return NUMBER.unpack(answer)[0]
        return None

    def _end_unseen(self) -> None:
        """The zygote has died, and with it the only one who could have waited."""
        until = time.monotonic() + UNSEEN_SECONDS
        while not self._gone() and time.monotonic() < until:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)

    def _gone(self) -> bool:
        """Whether the process has ended, also where nobody takes note of it."""
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2]
            return state.split()[0] in "ZX"
        try:  # there is no such file, or no /proc
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False


class _Zygote:
    """The process that starts workers, and the socket over which it is told to."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control
        self.has_started = False

    def start(self, theirs: socket.socket, number: int, post: WorkerRole) -> Process | None:
        """A worker that serves the socket `theirs` at a post; None if the zygote has died."""
        try:
            order = ORDER.pack(START, number, POSTS.index(post))
            socket.send_fds(self._control, [order], [theirs.fileno()])
            pid = self._control.recv(NUMBER.size)
        except OSError:
            pid = b""
        if not pid:
            return None
        self.has_started = True
        return Process(NUMBER.unpack(pid)[0], self._control)

    def close(self) -> None:
        self._control.close()  # the zygote takes this as its end
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()


class Launcher:
    """Starts worker processes: forks of a zygote where forking is safe, else new processes.

    The zygote begins to import jax at once; one that dies later is started again. `folder` is where
    the processes write; it is removed with them.
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
        reading, writing = os.pipe()  # nothing is written: workers see that our end closes
        self._driver, self._ours = os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0)
        self._zygote = self._hatched()

    def _hatched(self) -> _Zygote:
        control, theirs = socket.socketpair()
        with theirs:
            return _Zygote(self._popen(theirs.fileno()), control)

    def _popen(self, control: int) -> subprocess.Popen[bytes]:
        driver = self._driver.fileno()
        command = [sys.executable, "-m", fork_server.__name__, "fork" if FORKS else "spawn"]
        command += [str(control), str(driver), str(self.folder), self._isolation.value]
        with open(self._err, "ab") as err:
            return subprocess.Popen(
                command,
                env=self._environ,
                pass_fds=[control, driver],
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                start_new_session=True,  # Ctrl-C is for pytest, which then closes the bench
            )

    @property
    def _err(self) -> Path:
        return self.folder / "zygote.err"

    def new_files(self) -> WorkerFiles:
        """The folder of the worker that is started next."""
        self._workers += 1
        files = WorkerFiles(self.folder / str(self._workers))
        files.make()
        return files

    def start(self, theirs: socket.socket, files: WorkerFiles, post: WorkerRole) -> Process:
        """Start a worker that serves the socket `theirs` at a post. Raises SandboxError."""
        for _ in range(TRIES):
            if process := self._zygote.start(theirs, int(files.folder.name), post):
                return process
            if not self._zygote.has_started and self.remains():
                break  # it could not even begin, and has said why
            self._zygote.close()
            self._zygote = self._hatched()
        raise SandboxError(self.remains() or "the process that imports jax has died")

    def remains(self) -> str:
        """What a process wrote that died while it was starting."""
        with contextlib.suppress(OSError):
            return self._err.read_text(errors="replace").strip()
        return ""

    def close(self) -> None:
        """End the zygote and every worker that it has started; remove what they wrote."""
        self._zygote.close()
        self._ours.close()
        self._driver.close()
        removed(self.folder)
