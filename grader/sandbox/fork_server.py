"""The fork server: starts workers, and ends them with their session.

    python -m grader.sandbox.fork_server fork|spawn CONTROL DRIVER FOLDER ISOLATION

CONTROL is the number of an inherited socket. Orders come over it, each with a number:

    S  start a worker at a post, with the folder of this number in FOLDER, to serve the socket that
       comes with the order; answered by the new process's number
    P  has the process of this number ended? 1 or 0
    R  wait for its end; answered by its exit code, or minus the signal that ended it

When CONTROL closes, the zygote kills all workers and what they have started, and removes FOLDER. So
nothing outlives pytest, however that ends. DRIVER is the number of an inherited pipe whose other
end closes with pytest's process: by it a worker ends whose zygote was killed, too.

With "fork", the zygote imports jax once and runs nothing; a fork takes about 12 ms. Where forking a
process that has imported jax is not safe (macOS), it does not import jax, and each worker is a new
process ("spawn"):

    python -m grader.sandbox.fork_server POST SOCKET DRIVER FOLDER ISOLATION
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from grader.sandbox import process_limits
from grader.sandbox.devices import skip_plugins
from grader.sandbox.isolation import Confinement, Isolation, confinement
from grader.sandbox.messages import CONNECTION_CLOSED, WorkerRole
from grader.sandbox.process_limits import Child
from grader.sandbox.worker_files import WorkerFiles, removed

NUMBER = struct.Struct("!q")
ORDER = struct.Struct("!cqB")  # which, a number, and for a start the place of the post in POSTS
START, WAIT, POLL = b"S", b"R", b"P"
POSTS = tuple(WorkerRole)

#: Starts a worker at a post that serves a socket and has a folder.
Start = Callable[[WorkerRole, int, Path], Child]


def main(control_fd: int, folder: Path, start: Start) -> None:
    """Serve until the control socket closes."""
    control = socket.socket(fileno=control_fd)
    process_limits.adopt_orphans()
    alive: dict[int, Child] = {}
    with contextlib.suppress(ConnectionError):
        while True:
            order, fds, _, _ = socket.recv_fds(control, ORDER.size, 1)
            if not order:
                break
            letter, number, post = ORDER.unpack(order)
            if letter == START:
                child = start(POSTS[post], fds[0], folder / str(number))
                os.close(fds[0])
                alive[child.pid] = child
                control.sendall(NUMBER.pack(child.pid))
            elif letter == POLL:
                control.sendall(NUMBER.pack(alive[number].poll() is not None))
            else:
                code = alive.pop(number).wait()
                process_limits.kill_children(spared=alive)
                control.sendall(NUMBER.pack(code))
    process_limits.kill_groups(alive.values())
    process_limits.kill_children()
    removed(folder)  # for a pytest that was killed
    os._exit(0)  # nothing to tidy up that is worth the time


@contextlib.contextmanager
def _kept_for_good() -> Iterator[None]:
    """What is made meanwhile is no garbage: nobody looks for any among it, nor do the workers.

    That takes a seventh of the time that importing jax takes, and of a worker's 60 ms each time.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


class _Forks:
    """Starts workers as forks of this process, which imports jax. Raises NotIsolated."""

    def __init__(self, control_fd: int, driver: int, isolation: Isolation) -> None:
        with _kept_for_good():
            from grader.sandbox import worker
            from pallascope.kernels.serialization import make_ready

            make_ready()
            skip_plugins()
        self._main, self._control, self._driver = worker.main, control_fd, driver
        self._prepared = confinement(isolation)

    def __call__(self, post: WorkerRole, fd: int, folder: Path) -> Child:
        with warnings.catch_warnings():
            # jax warns that forking may deadlock its threads; before its backend starts it has none
            warnings.simplefilter("ignore")
            child = os.fork()
        if child:
            return _Fork(child)
        os.close(self._control)
        os.setsid()  # what the learner's code starts ends with it
        _work(self._main, fd, self._driver, folder, post, self._prepared)


class _Fork:
    """A forked process, with the methods of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Whether it has ended (then 0, whatever its exit code); `wait` can still tell."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return 0 if ended else None

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


class _Spawns:
    """Starts workers as new processes."""

    def __init__(self, driver: int, isolation: Isolation) -> None:
        self._driver, self._isolation = driver, isolation

    def __call__(self, post: WorkerRole, fd: int, folder: Path) -> Child:
        command = [sys.executable, "-m", __spec__.name, post.value, str(fd), str(self._driver)]
        return subprocess.Popen(
            [*command, str(folder), self._isolation.value],
            pass_fds=(fd, self._driver),
            start_new_session=True,  # what the learner's code starts ends with it
        )


def spawned(post: WorkerRole, fd: int, driver: int, folder: Path, isolation: Isolation) -> NoReturn:
    """Be a single worker, in a new process. Raises NotIsolated."""
    from grader.sandbox import worker

    skip_plugins()
    _work(worker.main, fd, driver, folder, post, confinement(isolation))


def _work(
    main: Callable[..., None],
    fd: int,
    driver: int,
    folder: Path,
    post: WorkerRole,
    prepared: Confinement,
) -> NoReturn:
    main(socket.socket(fileno=fd), driver, WorkerFiles(folder), post, prepared)
    os._exit(CONNECTION_CLOSED)


if __name__ == "__main__":
    role, fd, driver = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    folder, wanted = Path(sys.argv[4]), Isolation(sys.argv[5])
    match role:
        case "fork":
            main(fd, folder, _Forks(fd, driver, wanted))
        case "spawn":
            main(fd, folder, _Spawns(driver, wanted))
        case post:
            spawned(WorkerRole(post), fd, driver, folder, wanted)
