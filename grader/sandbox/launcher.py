"""Starts worker processes: from a zygote where forking is safe, else each anew."""

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
from typing import Protocol

from grader.model import Device
from grader.sandbox.environment import environment
from grader.sandbox.folders import WorkerFiles, removed
from grader.sandbox.isolation import Isolation
from grader.sandbox.post import Post
from grader.sandbox.zygote import FORK, NUMBER, ORDER, POLL, POSTS, WAIT

FORKS = sys.platform == "linux"
BOOT_SECONDS = 120  # for importing jax on a slow disk
UNSEEN_SECONDS = 2  # for the end of a killed process that nobody can be asked about
TRIES = 3  # zygotes that are started for one worker


class SandboxError(RuntimeError):
    """No worker could be started: jax is missing or broken, or the backend is another one."""


class Process(Protocol):
    """A worker's process, however it was started."""

    @property
    def pid(self) -> int: ...

    def ended(self) -> bool:
        """Whether it has ended, by now."""
        ...

    def wait(self) -> int | None:
        """Wait for its end; the exit code, or minus the signal that ended it.

        None where nobody saw it end.
        """
        ...


class _Forked:
    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control

    def ended(self) -> bool:
        answer = self._ask(POLL)
        return self._gone() if answer is None else bool(answer)

    def wait(self) -> int | None:
        if (status := self._ask(WAIT)) is None:
            self._end_unseen()
            return None
        return os.waitstatus_to_exitcode(status)

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
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2]
        except OSError:
            return True
        return state.split()[0] in "ZX"


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid, self._process = process.pid, process

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        return self._process.wait()


class _Zygote:
    """The process that forks workers, and the socket over which it is told to."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control
        self.has_forked = False

    def fork(self, theirs: socket.socket, number: int, post: Post) -> Process | None:
        """A worker that serves the socket `theirs` at a post; None if the zygote has died."""
        try:
            order = ORDER.pack(FORK, number, POSTS.index(post))
            socket.send_fds(self._control, [order], [theirs.fileno()])
            pid = self._control.recv(NUMBER.size)
        except OSError:
            pid = b""
        if not pid:
            return None
        self.has_forked = True
        return _Forked(NUMBER.unpack(pid)[0], self._control)

    def close(self) -> None:
        self._control.close()  # the zygote takes this as its end
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()


class Launcher:
    """Starts worker processes: from a zygote where forking is safe, else each anew.

    The zygote begins to import jax at once; one that dies later is started anew. `folder` is where
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
        self._zygote = self._hatched() if FORKS else None

    def _hatched(self) -> _Zygote:
        control, theirs = socket.socketpair()
        with theirs:
            return _Zygote(self._popen("zygote", theirs, self.folder), control)

    def _popen(self, role: str, inherited: socket.socket, folder: Path) -> subprocess.Popen[bytes]:
        with open(self._err, "ab") as err:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "grader.sandbox.zygote",
                    role,
                    str(inherited.fileno()),
                    str(folder),
                    self._isolation.value,
                ],
                env=self._environ,
                pass_fds=[inherited.fileno()],
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

    def start(self, theirs: socket.socket, files: WorkerFiles, post: Post) -> Process:
        """Start a worker that serves the socket `theirs` at a post. Raises SandboxError."""
        if self._zygote is None:
            return _Spawned(self._popen(post.value, theirs, files.folder))
        for _ in range(TRIES):
            if process := self._zygote.fork(theirs, int(files.folder.name), post):
                return process
            if not self._zygote.has_forked and self.remains():
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
        if self._zygote is not None:
            self._zygote.close()
        removed(self.folder)
