"""A process at one post: answers the bench's questions until it hangs up. Judges nothing.

What is printed goes to two files in the bench's folder, named by process number.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from grader.sandbox import judging, solving, tracing
from grader.sandbox.messages import Answer, Closed, Hello, Question, receive, send
from grader.sandbox.post import Post
from grader.sandbox.printing import Printed
from grader.tools import codec

MEMORY_LIMIT = 8 << 30  # bytes of private memory; grading a matmul takes about 5 % of it


def main(bench: socket.socket, folder: str, post: Post) -> None:
    """Answer the bench's questions until it hangs up."""
    out, err = _redirect(Path(folder))
    tempfile.tempdir = folder  # what a worker that is killed leaves behind goes with the bench
    faulthandler.enable(err)
    faulthandler.register(signal.SIGUSR1, err, all_threads=True)
    if post is not Post.RUNNING:
        # Only what is run needs the accelerator, and a TPU belongs to one process alone.
        jax.config.update("jax_platforms", "cpu")
    if sys.platform == "linux" and jax.config.jax_platforms == "cpu":
        _limit_memory()
    jax.config.update("jax_traceback_filtering", "off")
    answer = _answering(post, Printed(out))
    try:
        send(bench, codec.pack(Hello(jax.default_backend(), jax.__version__)))
        while True:
            send(bench, codec.pack(answer(codec.unpack(Question, receive(bench)))))
    except Closed:
        return


def _answering(post: Post, printed: Printed) -> Callable[[Question], Answer]:
    match post:
        case Post.TRUSTED:
            return solving.Solver(printed).answer
        case Post.ATTEMPTING | Post.SPARE:
            return tracing.Tracer(printed).answer
        case Post.RUNNING | Post.COMPILING:
            return judging.Judge(printed).answer


def _redirect(folder: Path) -> tuple[Path, Any]:
    out, err = (folder / f"{os.getpid()}.{end}" for end in ("out", "err"))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for file, fd in ((out, 1), (err, 2)):
        opened = os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        os.dup2(opened, fd)
    return out, sys.__stderr__


def _limit_memory() -> None:
    """Let growth without end fail in this process instead of on the learner's machine.

    On the CPU: drivers of accelerators map far more than they use.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
