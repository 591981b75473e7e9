"""Starts worker processes: from a zygote where forking is safe, else each anew."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from grader.model import Device
from grader.sandbox.environment import environment
from grader.sandbox.post import Post
from grader.sandbox.zygote import NUMBER, POSTS

FORKS = sys.platform == "linux"
BOOT_SECONDS = 120  # for importing jax on a slow disk


class SandboxError(RuntimeError):
    """No worker could be started: jax is missing or broken, or the backend is another one."""


class Process(Protocol):
    """A worker's process, however it was started."""

    pid: int

    def wait(self) -> int:
        """Wait for its end; the exit code, or minus the signal that ended it."""
        ...


class _Forked:
    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control

    def wait(self) -> int:
        self._control.sendall(b"R" + NUMBER.pack(self.pid))
        (status,) = NUMBER.unpack(self._control.recv(NUMBER.size))
        return os.waitstatus_to_exitcode(status)


class Launcher:
    """Starts worker processes: from a zygote where forking is safe, else each anew.

    The zygote begins to import jax at once. `folder` is where the processes write; it is removed
    with them.
    """

    def __init__(self, device: Device, environ: Mapping[str, str] = os.environ) -> None:
        self.device = device
        self.folder = Path(tempfile.mkdtemp(prefix="pallas-katas-"))
        self._environ = environment(device, environ)
        self._control: socket.socket | None = None
        self._zygote: subprocess.Popen[bytes] | None = None
        if FORKS:
            self._control, theirs = socket.socketpair()
            self._zygote = self._popen("zygote", theirs)
            theirs.close()

    def _popen(self, role: str, inherited: socket.socket) -> subprocess.Popen[bytes]:
        with open(self.folder / "zygote.err", "ab") as err:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "grader.sandbox.zygote",
                    role,
                    str(inherited.fileno()),
                    str(self.folder),
                ],
                env=self._environ,
                pass_fds=[inherited.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                start_new_session=True,  # Ctrl-C is for pytest, which then closes the bench
            )

    def start(self, theirs: socket.socket, post: Post) -> Process:
        """Start a worker that serves the socket `theirs` at a post. Raises SandboxError."""
        if self._control is None:
            return self._popen(post.value, theirs)
        try:
            order = b"F" + NUMBER.pack(POSTS.index(post))
            socket.send_fds(self._control, [order], [theirs.fileno()])
            pid = self._control.recv(NUMBER.size)
        except OSError:
            pid = b""
        if not pid:
            raise SandboxError(self.remains() or "the process that imports jax has died")
        return _Forked(NUMBER.unpack(pid)[0], self._control)

    def remains(self) -> str:
        """What a process wrote that died while it was starting."""
        with contextlib.suppress(OSError):
            return (self.folder / "zygote.err").read_text(errors="replace").strip()
        return ""

    def close(self) -> None:
        """End the zygote and every worker that it has started; remove what they wrote."""
        if self._control is not None:
            self._control.close()  # the zygote takes this as its end
        if self._zygote is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._zygote.wait(5)
            self._zygote.kill()
            self._zygote.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
