"""Executors of jobs: messages, a queue, and processes of this machine.

What crosses between the crew and its workers.

Jobs that nobody has begun.

Who judges submissions: what a batch asks of a crew, be it of local processes or of others.

A crew of processes on this machine.
A worker has one submission at a time. One that dies costs only what it was at, which another tries
once more. Where the driver dies, its workers end by themselves.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol, Self

from grader.api.examiner import DEFAULT_LIMIT
from grader.sandbox.messages import Closed
from grader.sandbox.worker_pool import Channel
from pallascope.tools import codec


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to a worker: how to grade.

    `root` is the repository's folder, `limit` the seconds that a submission may take in all.
    """

    root: str
    chips: tuple[str, ...]
    isolation: str
    limit: float = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class SubmissionJob:
    """One submission. `key` is the store's name for it."""

    key: str
    kata: str
    source: str
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job: the verdict as JSON, or why there is none.

    `accident`: the verdict holds for this run alone, see `Report.accident`. `hopeless`: no other
    submission can be graded here either.
    """

    key: str
    kata: str
    verdict: str = ""
    error: str = ""
    hopeless: bool = False
    accident: bool = False


class Waiting:
    """Jobs by kata: a worker stays with one as long as it can, since it keeps that one's par."""

    def __init__(self, jobs: Iterable[SubmissionJob]) -> None:
        self._by_kata: dict[str, deque[SubmissionJob]] = {}
        for job in jobs:
            self.add(job)

    def __len__(self) -> int:
        return sum(map(len, self._by_kata.values()))

    def add(self, job: SubmissionJob) -> None:
        self._by_kata.setdefault(job.kata, deque()).append(job)

    def next_for(self, kata: str) -> SubmissionJob:
        """The job that a worker gets whose latest kata is this one. Raises ValueError if none."""
        chosen = kata if kata in self._by_kata else max(self._by_kata, key=self._left)
        job = self._by_kata[chosen].popleft()
        if not self._by_kata[chosen]:
            del self._by_kata[chosen]
        return job

    def _left(self, kata: str) -> int:
        return len(self._by_kata[kata])


TRIES = 2  # for one submission, where the worker itself dies


class Hopeless(RuntimeError):
    """Nothing can be graded here: says why."""


class Crew(Protocol):
    """Workers that grade one submission each at a time."""

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        """What comes of each job, once, in the order in which they are done.

        A job whose worker dies is tried `TRIES` times in all. Raises Hopeless.
        """
        ...


#: Starts a crew, which ends with the `with`, however that is left.
Hire = Callable[[Setup], AbstractContextManager[Crew]]


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
                    *(sys.executable, "-m", "grader.batch.batch_worker", str(theirs.fileno())),
                    *([str(own)] if own else []),
                ],
                cwd=own,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environ,
                start_new_session=True,  # Ctrl-C is for the driver
            )
        self.socket, self.channel = ours, Channel(ours)
        self.job: SubmissionJob | None = None
        self.kata = ""  # of its latest job
        with contextlib.suppress(Closed):
            self.channel.send(codec.pack(setup))

    def begin(self, job: SubmissionJob) -> None:
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

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
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
