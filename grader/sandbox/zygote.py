"""A process that imports jax once, runs nothing, and forks a fresh worker whenever it is told to.

    python -m grader.sandbox.zygote zygote CONTROL FOLDER ISOLATION

CONTROL is the number of an inherited socket. Orders come over it, each with a number:

    F  fork a worker for the folder of this number in FOLDER and for a post, to serve the socket
       that comes with the order; answered by the new process's number
    P  has the process of this number ended? 1 or 0
    R  wait for its end; answered by its wait status

When CONTROL closes, every worker still alive is killed, and FOLDER is removed. What a worker has
started ends with it: none outlives pytest, however that ends.

Where forking a process that has imported jax is not safe (macOS), the bench starts each worker
anew, through `spawned`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from grader.sandbox import reaping
from grader.sandbox.folders import WorkerFiles, removed
from grader.sandbox.isolation import Confinement, Isolation, confinement
from grader.sandbox.messages import CONNECTION_CLOSED
from grader.sandbox.post import Post

NUMBER = struct.Struct("!q")
ORDER = struct.Struct("!cqB")  # which, a number, and for a fork the place of the post in POSTS
FORK, WAIT, POLL = b"F", b"R", b"P"
POSTS = tuple(Post)


def main(control_fd: int, folder: str, isolation: Isolation) -> None:
    """Serve until the control socket closes. Raises NotIsolated."""
    control = socket.socket(fileno=control_fd)
    with _kept_for_good():
        from grader.kernels.carrier import make_ready
        from grader.sandbox import worker

        make_ready()
    prepared = confinement(isolation)
    reaping.adopt_orphans()
    alive: set[int] = set()
    with contextlib.suppress(ConnectionError):
        while True:
            order, fds, _, _ = socket.recv_fds(control, ORDER.size, 1)
            if not order:
                break
            letter, number, post = ORDER.unpack(order)
            if letter == FORK:
                files = WorkerFiles(Path(folder, str(number)))
                alive.add(child := _fork(worker, control, fds[0], files, POSTS[post], prepared))
                control.sendall(NUMBER.pack(child))
            elif letter == POLL:
                control.sendall(NUMBER.pack(_ended(number)))
            else:
                _, status = os.waitpid(number, 0)
                alive.discard(number)
                reaping.kill_children(spared=alive)
                control.sendall(NUMBER.pack(status))
    reaping.kill_children()
    removed(Path(folder))  # for a pytest that was killed
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


def _fork(
    worker,
    control: socket.socket,
    fd: int,
    files: WorkerFiles,
    post: Post,
    prepared: Confinement,
) -> int:
    with warnings.catch_warnings():
        # jax warns that forking may deadlock its threads; before its backend starts it has none.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        os.close(fd)
        return child
    control.close()
    os.setsid()  # what the learner's code starts ends with it
    worker.main(socket.socket(fileno=fd), files, post, prepared)
    os._exit(CONNECTION_CLOSED)


def _ended(child: int) -> bool:
    """Whether a worker has ended; its status can still be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def spawned(fd: int, folder: str, post: Post, isolation: Isolation) -> None:
    """Be a single worker, in a process of its own."""
    from grader.sandbox import worker

    files = WorkerFiles(Path(folder))
    worker.main(socket.socket(fileno=fd), files, post, confinement(isolation))
    os._exit(CONNECTION_CLOSED)


if __name__ == "__main__":
    role, fd, folder, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3], Isolation(sys.argv[4])
    if role == "zygote":
        main(fd, folder, wanted)
    else:
        spawned(fd, folder, Post(role), wanted)
