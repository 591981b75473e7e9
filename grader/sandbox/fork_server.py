"""The fork server: starts workers, and ends them with their session.

    python -m grader.sandbox.fork_server fork|spawn FOLDER ISOLATION

It is a `ChildProcess` of the session. When its connection closes, it kills all workers and their
processes, and removes FOLDER. So nothing outlives pytest, however pytest ends. If the fork server
was killed too, each worker ends when its own connection closes.

With "fork", it imports jax once and runs nothing; a fork takes about 12 ms. Where forking a process
that has imported jax is not safe (macOS), it does not import jax, and each worker is a new process
("spawn") with its socket as standard input:

    python -m grader.sandbox.fork_server POST FOLDER ISOLATION
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from grader.exercise.catalog import COURSE, SOLUTIONS
from grader.sandbox import process_limits
from grader.sandbox.isolation import Isolation, confinement
from grader.sandbox.messages import WorkerRole
from grader.sandbox.process_limits import Child
from grader.sandbox.worker_environment import WorkerFiles, removed
from pallascope.runs.run_process import skip_plugins
from pallascope.tools import codec
from pallascope.tools.child_process import (
    ConnectionClosed,
    receive,
    receive_descriptor,
    send,
    socket_of_child,
)

#: Landlock lets a worker read installed packages, but not the answers in ours.
SECRET = (COURSE / SOLUTIONS, COURSE / "variants")


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a worker with the folder of this number. Its socket is sent right after this message.

    The answer is its process's number.
    """

    role: WorkerRole
    number: int


@dataclass(frozen=True, slots=True)
class HasEnded:
    """Has a worker ended? The answer is 1 or 0."""

    pid: int


@dataclass(frozen=True, slots=True)
class WaitForEnd:
    """Wait for a worker's end. The answer is its exit code, or minus the signal that ended it."""

    pid: int


#: Starts a worker with a role, a socket that it serves, and a folder.
Start = Callable[[WorkerRole, int, Path], Child]


def main(control: socket.socket, folder: Path, start: Start) -> None:
    """Serve until the connection closes."""
    process_limits.adopt_orphans()
    alive: dict[int, Child] = {}
    with contextlib.suppress(ConnectionClosed):
        while True:
            order: StartWorker | HasEnded | WaitForEnd
            order = codec.unpack(StartWorker | HasEnded | WaitForEnd, receive(control))
            match order:
                case StartWorker(role, number):
                    descriptor = receive_descriptor(control)
                    child = start(role, descriptor, folder / str(number))
                    os.close(descriptor)
                    alive[child.pid] = child
                    answer = child.pid
                case HasEnded(pid):
                    answer = int(alive[pid].poll() is not None)
                case WaitForEnd(pid):
                    answer = alive.pop(pid).wait()
                    process_limits.kill_children(spared=alive)
            send(control, codec.pack(answer))
    process_limits.kill_groups(alive.values())
    process_limits.kill_children()
    removed(folder)  # for a pytest that was killed
    os._exit(0)  # nothing to tidy up that is worth the time


@contextlib.contextmanager
def _kept_for_good() -> Iterator[None]:
    """Exempt objects that are created in this context from garbage collection, also in the workers.

    Collection takes a seventh of the time of importing jax, and of each worker's 60 ms.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


class _Forks:
    """Starts workers as forks of this process, which imports jax. Raises NotIsolated."""

    def __init__(self, control: socket.socket, isolation: Isolation) -> None:
        with _kept_for_good():
            from grader.sandbox import worker
            from pallascope.kernels.serialization import make_ready

            make_ready()
            skip_plugins()
        self._main, self._control = worker.main, control
        self._prepared = confinement(isolation, never=SECRET)

    def __call__(self, role: WorkerRole, descriptor: int, folder: Path) -> Child:
        with warnings.catch_warnings():
            # jax warns that forking may deadlock its threads; before its backend starts it has none
            warnings.simplefilter("ignore")
            child = os.fork()
        if child:
            return _Fork(child)
        self._control.close()
        os.setsid()  # processes that the learner's code starts end with it
        connected = socket.socket(fileno=descriptor)
        self._main(connected, WorkerFiles(folder), role, self._prepared)


class _Fork:
    """A forked process, with the methods of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """0 if it has ended, whatever its exit code, else None. `wait` still works afterwards."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return 0 if ended else None

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


class _Spawns:
    """Starts workers as new processes."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation

    def __call__(self, role: WorkerRole, descriptor: int, folder: Path) -> Child:
        command = [sys.executable, "-m", __spec__.name, role.value]
        return subprocess.Popen(
            [*command, str(folder), self._isolation.value],
            stdin=descriptor,
            start_new_session=True,  # processes that the learner's code starts end with it
        )


def spawned(
    connected: socket.socket, role: WorkerRole, folder: Path, isolation: Isolation
) -> NoReturn:
    """Run a single worker in this new process. Raises NotIsolated."""
    from grader.sandbox import worker

    skip_plugins()
    worker.main(connected, WorkerFiles(folder), role, confinement(isolation, never=SECRET))


if __name__ == "__main__":
    connected = socket_of_child()
    role, folder, isolation = sys.argv[1], Path(sys.argv[2]), Isolation(sys.argv[3])
    match role:
        case "fork":
            main(connected, folder, _Forks(connected, isolation))
        case "spawn":
            main(connected, folder, _Spawns(isolation))
        case role:
            spawned(connected, WorkerRole(role), folder, isolation)
