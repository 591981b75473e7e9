"""Executors grade submissions, each in a worker process; messages, a queue, and a local executor.

A local worker grades one submission at a time. If it dies, it is replaced, and its submission is
retried once. Workers end when the process that started them ends.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Protocol, Self

from grader.api.examiner import DEFAULT_LIMIT
from pallascope.tools.child_process import ChildEnded, ChildProcess


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to a worker: how to grade.

    `root` is the repository's folder, `limit` a submission's time limit in seconds.
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
    """The verdict of a job as JSON, or the error that prevented one.

    `accident`: the verdict is valid for this run only, see `Report.accident`. `fatal`: no other
    submission can be graded here either.
    """

    key: str
    kata: str
    verdict: str = ""
    error: str = ""
    fatal: bool = False
    accident: bool = False


class JobQueue:
    """Jobs by kata. A worker first gets jobs of its latest kata, whose par it has cached."""

    def __init__(self, jobs: Iterable[SubmissionJob]) -> None:
        self._by_kata: dict[str, deque[SubmissionJob]] = {}
        for job in jobs:
            self.add(job)

    def __len__(self) -> int:
        return sum(map(len, self._by_kata.values()))

    def add(self, job: SubmissionJob) -> None:
        self._by_kata.setdefault(job.kata, deque()).append(job)

    def next_for(self, kata: str) -> SubmissionJob:
        """The next job for a worker whose latest kata is this one. Raises ValueError if none."""
        chosen = kata if kata in self._by_kata else max(self._by_kata, key=self._left)
        job = self._by_kata[chosen].popleft()
        if not self._by_kata[chosen]:
            del self._by_kata[chosen]
        return job

    def _left(self, kata: str) -> int:
        return len(self._by_kata[kata])


TRIES = 2  # of one submission, if its worker dies


class ExecutorError(RuntimeError):
    """No submission can be graded here; the text is the reason."""


class Executor(Protocol):
    """Workers that grade one submission each at a time."""

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        """One outcome for each job, as they end.

        A job whose worker dies is tried `TRIES` times in all. Raises ExecutorError.
        """
        ...


#: Starts an executor, which ends with the `with` statement.
ExecutorFactory = Callable[[Setup], AbstractContextManager[Executor]]


ENDING_SECONDS = 10.0


class WorkerProcess:
    """The parent's handle of a process with an Examiner."""

    def __init__(self, setup: Setup) -> None:
        command = [sys.executable, "-m", "grader.batch.batch_worker"]
        self.child = ChildProcess(command, grace=ENDING_SECONDS)
        self.job: SubmissionJob | None = None
        self.kata = ""  # of its latest job
        self.child.send(setup)

    def begin(self, job: SubmissionJob) -> None:
        self.job, self.kata = job, job.kata
        self.child.send(job)

    def outcome(self) -> Outcome:
        """Raises ChildEnded if the process has died."""
        outcome = self.child.answer(Outcome, None)
        self.job = None
        return outcome

    def end(self) -> None:
        """Let it end, without waiting."""
        self.child.connection.close()

    def wait(self) -> None:
        self.child.close()


class LocalExecutor:
    """`count` processes on this machine, which start with the first jobs."""

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
        """The process ids of the workers."""
        return tuple(worker.child.pid for worker in self._workers)

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        """See `Executor`."""
        waiting, tries = JobQueue(jobs), Counter[str]()
        while len(self._workers) < min(self._count, len(waiting)):
            self._workers.append(WorkerProcess(self._setup))
        while waiting or any(worker.job for worker in self._workers):
            for worker in self._workers:
                if not worker.job and waiting:
                    worker.begin(waiting.next_for(worker.kata))
            busy = {
                worker.child.connection.socket: worker for worker in self._workers if worker.job
            }
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]
                job = worker.job
                assert job
                try:
                    found = worker.outcome()
                except ChildEnded:
                    self._replace(worker)
                    tries[job.key] += 1
                    if tries[job.key] < TRIES:
                        waiting.add(job)
                    else:
                        why = f"{TRIES} processes died while grading it"
                        yield Outcome(job.key, job.kata, error=why)
                    continue
                if found.fatal:
                    raise ExecutorError(found.error)
                yield found

    def _replace(self, worker: WorkerProcess) -> None:
        worker.end()
        worker.wait()
        self._workers[self._workers.index(worker)] = WorkerProcess(self._setup)


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
