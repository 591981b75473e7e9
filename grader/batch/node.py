"""What runs on a node of a cluster: one warm worker process, asked by a driver elsewhere.

An Examiner is not made in the cluster's own process: whatever ends that one (its node, its driver,
a lack of memory), the worker process sees its socket close, and takes its processes and files with
it.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from grader.batch.crew import TRIES
from grader.batch.local_crew import WorkerProcess
from grader.batch.luggage import is_whole, unpack
from grader.batch.orders import Job, Outcome, Setup
from grader.sandbox.folders import removed
from grader.sandbox.messages import Closed
from grader.tools.versions import versions

SPARE_SECONDS = 240.0  # for starting processes on a machine that is busy
#: The cluster's own variables, its password among them, are nothing for a worker.
HIDDEN = ("RAY_", "PYTHONBREAKPOINT")


class Node:
    """Grades one submission after another, in a worker process that it replaces where it must.

    The current folder is what `luggage.pack` has packed; each worker process gets a copy, since
    the cluster may write or remove it at any time. `wanted` are the driver's versions of what
    judges: with others nothing is graded, since verdicts are stored under the driver's. A worker
    process that says nothing for `spare` seconds beyond a submission's limit is ended.
    """

    def __init__(
        self, setup: Setup, wanted: Mapping[str, str | None], spare: float = SPARE_SECONDS
    ) -> None:
        self._setup, self._sent = setup, Path.cwd()
        self._own: Path | None = None
        self._wanted, self._seconds = wanted, setup.limit + spare
        self._worker: WorkerProcess | None = None

    def ready(self) -> str:
        """Why nothing can be graded here; "" where it can."""
        unlike = difference(self._wanted, versions())
        return unlike and f"the node {socket.gethostname()} has {unlike}"

    def grade(self, job: Job) -> Outcome:
        """The verdict, or why there is none. A worker that dies is replaced, and asked again."""
        if reason := self.ready():
            return Outcome(job.key, job.kata, error=reason, hopeless=True)
        for _ in range(TRIES):
            worker = self._worker = self._worker or self._started()
            worker.begin(job)
            try:
                return worker.outcome(self._seconds)
            except TimeoutError:
                self.close()
                return Outcome(job.key, job.kata, error=f"no answer after {self._seconds:g} s")
            except Closed:
                self._part()  # its folder stays: what it has started may still be reading there
        return Outcome(job.key, job.kata, error=f"{TRIES} processes died over it")

    def close(self) -> None:
        """End the worker process. The next submission gets another."""
        self._part()
        own, self._own = self._own, None
        if own:
            removed(own)

    def _part(self) -> None:
        worker, self._worker = self._worker, None
        if worker:
            worker.end()
            worker.wait()

    def _started(self) -> WorkerProcess:
        own = self._own if self._own and is_whole(self._own) else self._unpacked()
        environ = without_cluster(os.environ)
        environ["PYTHONPATH"] = f"{own}{os.pathsep}{environ.get('PYTHONPATH', '')}"
        return WorkerProcess(dataclasses.replace(self._setup, root=str(own)), environ, own)

    def _unpacked(self) -> Path:
        self.close()
        self._own = Path(tempfile.mkdtemp(prefix="pallas-katas-"))
        try:
            unpack(self._sent, self._own)
        except BaseException:
            self.close()
            raise
        return self._own


def difference(wanted: Mapping[str, str | None], own: Mapping[str, str | None]) -> str:
    """Which versions are others than the driver's, in words; "" where none is."""
    return ", ".join(
        f"{name} {own.get(name) or 'not installed'} (here: {of or 'not installed'})"
        for name, of in wanted.items()
        if own.get(name) != of
    )


def without_cluster(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a worker gets."""
    return {name: of for name, of in environ.items() if not name.startswith(HIDDEN)}
