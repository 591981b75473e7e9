"""The main loop of a worker: receives questions, sends answers.

What is printed goes to two files in the worker's folder.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import signal
import socket
from collections.abc import Callable

import jax

from grader.exercise.key_tables import MAX_DEVICES
from grader.sandbox import (
    judge_worker,
    process_limits,
    solution_worker,
    trace_worker,
)
from grader.sandbox.isolation import Confinement
from grader.sandbox.messages import (
    Answer,
    Closed,
    FinishedTest,
    Hello,
    LaunchCalled,
    Post,
    Question,
    Returned,
    RunResult,
    Traced,
    receive,
    send,
)
from grader.sandbox.trace_worker import Ask
from grader.sandbox.worker_files import WorkerFiles
from pallascope.tools import codec
from pallascope.tools.text import shortened

STDERR = 2
THREADS = 16  # for XLA, where several devices are simulated


def main(
    bench: socket.socket, driver: int, files: WorkerFiles, post: Post, prepared: Confinement
) -> None:
    """Answer the bench's questions until it hangs up. Raises NotIsolated.

    `driver` is the descriptor of a pipe whose other end closes when the bench's process ends.
    """
    out = files.move_in()
    if post in (Post.ATTEMPTING, Post.SPARE):
        prepared.enforce(files.writable)
        process_limits.limit_strangers()
    process_limits.end_with_driver(driver)  # a thread: what was started before is not confined
    faulthandler.enable(STDERR)
    faulthandler.register(signal.SIGUSR1, STDERR, all_threads=True)
    if post is not Post.RUNNING:
        # Only what is run needs the TPU, which belongs to one process alone.
        jax.config.update("jax_platforms", "cpu")
    if post is Post.MESHED:
        _simulate_devices()
    if post is not Post.RUNNING or os.environ.get("JAX_PLATFORMS") == "cpu":
        process_limits.limit_memory()
    jax.config.update("jax_traceback_filtering", "off")
    # before a kata's file could put its own there
    pack, number, ours, end = codec.pack, os.getpid(), os.getpid, os._exit

    def tell(answer: Answer | Hello) -> None:
        if ours() != number:
            end(0)  # a fork that the file left behind: it would read and answer in our place
        send(bench, pack(answer))

    def ask(called: LaunchCalled) -> Returned:
        tell(called)
        return codec.unpack(Returned, receive(bench))

    answer = _answering(post, ask)
    try:
        tell(Hello(jax.default_backend(), jax.__version__))
        while True:
            given = answer(codec.unpack(Question, receive(bench)))
            printed = shortened(files.take_printed(out))
            if isinstance(
                given, Traced | RunResult | FinishedTest
            ):  # of the others, what a trace prints is known
                given = dataclasses.replace(given, printed=printed)
            tell(given)
    except Closed:
        return


def _answering(post: Post, ask: Ask) -> Callable[[Question], Answer]:
    match post:
        case Post.TRUSTED:
            return solution_worker.answer
        case Post.ATTEMPTING | Post.SPARE:
            return trace_worker.Tracer(ask).answer
        case Post.RUNNING | Post.MESHED | Post.COMPILING:
            return judge_worker.answer


def _simulate_devices() -> None:
    """Have jax show several devices, before its backend starts.

    The interpreter keeps a thread of XLA waiting for each core of each, and XLA takes its number of
    threads from NPROC: with fewer, they would wait for each other without end.
    """
    os.environ["NPROC"] = str(THREADS)
    jax.config.update("jax_num_cpu_devices", MAX_DEVICES)
