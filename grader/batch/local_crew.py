"""A crew of processes on this machine.

A worker has one submission at a time. One that dies costs only what it was at, which another tries
once more. Where the driver dies, its workers end by themselves.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Self

from grader.batch.crew import TRIES, Hopeless
from grader.batch.orders import Job, Outcome, Setup
from grader.batch.waiting import Waiting
from grader.sandbox.channel import Channel
from grader.sandbox.messages import Closed
from grader.tools import codec

ENDING_SECONDS = 10.0


class WorkerProcess:
    """A process with an Examiner, from this side; its variables are ours, or `environ`.

    It runs in the folder `own`, if there is one, and removes that at its end.
    """

    def __init__(
        self,
        setup: Setup,
        environ: Mapping[str, str] | None = None,
        own: Path | None = None,
    ) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "grader.batch.worker", str(theirs.fileno())),
                    *([str(own)] if own else []),
                ],
                cwd=own,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environ,
                start_new_session=True,  # Ctrl-C is for the driver
            )
        self.socket, self.channel = ours, Channel(ours)
        self.job: Job | None = None
        self.kata = ""  # of its latest job
        with contextlib.suppress(Closed):
            self.channel.send(codec.pack(setup))

    def begin(self, job: Job) -> None:
        self.job, self.kata = job, job.kata
        with contextlib.suppress(Closed):  # `outcome` will notice
            self.channel.send(codec.pack(job))

    def outcome(self, seconds: float | None = None) -> Outcome:
        """Raises Closed where the process has died; TimeoutError where it took too long."""
        found = codec.unpack(Outcome, self.channel.receive(seconds))
        self.job = None
        return found

    def end(self) -> None:
        self.channel.close()
        self.process.terminate()

    def wait(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDING_SECONDS)
        self.process.kill()
        self.process.wait()


class LocalCrew:
    """So many workers, which start when there is something to do and end with the `with`."""

    def __init__(self, setup: Setup, count: int) -> None:
        self._setup, self._count = setup, count
        self._workers: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.wait()

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the workers that are there now."""
        return tuple(worker.process.pid for worker in self._workers)

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """What comes of each job, in the order in which they are done. Raises Hopeless."""
        waiting, tries = Waiting(jobs), Counter[str]()
        while len(self._workers) < min(self._count, len(waiting)):
            self._workers.append(WorkerProcess(self._setup))
        while waiting or any(worker.job for worker in self._workers):
            for worker in self._workers:
                if not worker.job and waiting:
                    worker.begin(waiting.next_for(worker.kata))
            busy = {worker.socket: worker for worker in self._workers if worker.job}
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]
                job = worker.job
                assert job
                try:
                    found = worker.outcome()
                except Closed:
                    self._replace(worker)
                    tries[job.key] += 1
                    if tries[job.key] < TRIES:
                        waiting.add(job)
                    else:
                        why = f"{TRIES} processes died over it"
                        yield Outcome(job.key, job.kata, error=why)
                    continue
                if found.hopeless:
                    raise Hopeless(found.error)
                yield found

    def _replace(self, worker: WorkerProcess) -> None:
        worker.end()
        worker.wait()
        self._workers[self._workers.index(worker)] = WorkerProcess(self._setup)


def cores() -> int:
    """How many workers this process has the cores for."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
