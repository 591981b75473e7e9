"""A process that imports jax once, runs nothing, and forks a fresh worker whenever it is told to.

    python -m grader.sandbox.zygote zygote CONTROL FOLDER

CONTROL is the number of an inherited socket. Over it comes `F` with the number of a post and a
worker's socket attached (answered by the new process's number), or `R` with a number: wait for that
worker's end (answered by its wait status). When CONTROL closes, every worker still alive is killed:
none outlives pytest.

Where forking a process that has imported jax is not safe (macOS), the bench starts each worker
anew, through `spawned`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
import warnings

from grader.sandbox.post import Post

NUMBER = struct.Struct("!q")
POSTS = tuple(Post)


def main(control_fd: int, folder: str) -> None:
    """Serve until the control socket closes."""
    control = socket.socket(fileno=control_fd)
    from grader.sandbox import worker

    alive: set[int] = set()
    with contextlib.suppress(ConnectionError):
        while True:
            order, fds, _, _ = socket.recv_fds(control, 1 + NUMBER.size, 1)
            if not order:
                break
            (number,) = NUMBER.unpack(order[1:])
            if order[:1] == b"F":
                alive.add(child := _fork(worker, control, fds[0], folder, POSTS[number]))
                control.sendall(NUMBER.pack(child))
            else:
                child = number
                _, status = os.waitpid(child, 0)
                alive.discard(child)
                control.sendall(NUMBER.pack(status))
    for child in alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os._exit(0)  # nothing to tidy up that is worth the time


def _fork(worker, control: socket.socket, fd: int, folder: str, post: Post) -> int:
    with warnings.catch_warnings():
        # jax warns that forking may deadlock its threads; before its backend starts it has none.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        os.close(fd)
        return child
    control.close()
    os.setsid()  # what the learner's code starts ends with it
    worker.main(socket.socket(fileno=fd), folder, post)
    os._exit(0)


def spawned(fd: int, folder: str, post: Post) -> None:
    """Be a single worker, in a process of its own."""
    from grader.sandbox import worker

    worker.main(socket.socket(fileno=fd), folder, post)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "zygote":
        main(int(sys.argv[2]), sys.argv[3])
    else:
        spawned(int(sys.argv[2]), sys.argv[3], Post(sys.argv[1]))
