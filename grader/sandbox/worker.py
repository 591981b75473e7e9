"""The main loop of a worker: receives questions, sends answers; chooses the limits of its role.

Its stdout and stderr go to two files in the worker's folder.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import functools
import os
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

import jax

from grader.exercise.key_tables import MAX_DEVICES
from grader.sandbox import (
    process_limits,
    solution_worker,
    trace_worker,
)
from grader.sandbox.isolation import Confinement
from grader.sandbox.messages import (
    CONNECTION_CLOSED,
    Answer,
    FinishedTest,
    Hello,
    LaunchCalled,
    Question,
    Returned,
    Traced,
    WorkerRole,
)
from grader.sandbox.trace_worker import Ask
from grader.sandbox.worker_environment import WorkerFiles
from pallascope.runs import launch_runs
from pallascope.runs.questions import RunResult, TraceQuestion
from pallascope.runs.run_process import simulate_devices
from pallascope.tools import codec
from pallascope.tools.child_process import ParentConnection
from pallascope.tools.text import shortened

STDERR = 2


def main(
    connected: socket.socket, files: WorkerFiles, role: WorkerRole, prepared: Confinement
) -> NoReturn:
    """Answer questions until the connection closes. Raises NotIsolated."""
    out = files.move_in()
    if role in (WorkerRole.ATTEMPTING, WorkerRole.SPARE):
        prepared.enforce(files.writable)
        process_limits.limit_strangers()
    # starts a thread, so it comes after `enforce`, which doesn't confine older threads
    parent = ParentConnection(connected, functools.partial(os._exit, CONNECTION_CLOSED))
    faulthandler.enable(STDERR)
    faulthandler.register(signal.SIGUSR1, STDERR, all_threads=True)
    if role is not WorkerRole.RUNNING:
        # Only runs need the TPU, and only one process can use it.
        jax.config.update("jax_platforms", "cpu")
    if role is WorkerRole.MESHED:
        simulate_devices(MAX_DEVICES)
    if role is not WorkerRole.RUNNING or os.environ.get("JAX_PLATFORMS") == "cpu":
        process_limits.limit_memory()
    jax.config.update("jax_traceback_filtering", "off")
    # saved before a kata's file can replace them
    pack, number, ours, end = codec.pack, os.getpid(), os.getpid, os._exit

    def tell(answer: Answer | Hello) -> None:
        if ours() != number:
            end(0)  # a fork that the file left behind, which would read and answer instead of us
        parent.send(pack(answer))

    def ask(called: LaunchCalled) -> Returned:
        tell(called)
        return codec.unpack(Returned, parent.receive())

    answer = _answering(role, ask)
    tell(Hello(jax.default_backend(), jax.__version__))
    while True:
        given = answer(codec.unpack(Question, parent.receive()))
        printed = shortened(files.take_printed(out))
        if isinstance(given, Traced | RunResult | FinishedTest):
            # other answers have no printed text of the learner's
            given = dataclasses.replace(given, printed=printed)
        tell(given)


def _answering(role: WorkerRole, ask: Ask) -> Callable[[Question], Answer]:
    match role:
        case WorkerRole.TRUSTED:
            return solution_worker.answer
        case WorkerRole.ATTEMPTING | WorkerRole.SPARE:
            return trace_worker.Tracer(ask).answer
        case WorkerRole.RUNNING | WorkerRole.MESHED | WorkerRole.COMPILING:
            return _judged


def _answer_for_gpu(question: Question) -> Answer:
    from grader.sandbox import gpu_judge_worker  # slow to import

    return gpu_judge_worker.answer(question)


#: By target: the answers to questions about traces.
JUDGES = {"tpu": launch_runs.answer, "gpu": _answer_for_gpu}


def _judged(question: Question) -> Answer:
    target = question.device.target if isinstance(question, TraceQuestion) else "tpu"
    return JUDGES[target](question)
