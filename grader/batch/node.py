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
from grader.batch.luggage import unpack
from grader.batch.orders import Job, Outcome, Setup
from grader.sandbox.folders import removed
from grader.sandbox.messages import Closed
from grader.tools.versions import versions

#: The cluster's own variables, its password among them, are nothing for a worker.
HIDDEN = ("RAY_", "PYTHONBREAKPOINT")


class Node:
    """Grades one submission after another, in a worker process that it replaces where it must.

    The current folder is what `luggage.pack` has packed; each worker process gets a copy, since
    the cluster may write or remove it at any time. `wanted` are the driver's versions of what
    judges: with others nothing is graded, since verdicts are stored under the driver's. A
    submission may take `seconds`.
    """

    def __init__(self, setup: Setup, wanted: Mapping[str, str | None], seconds: float) -> None:
        self._setup, self._sent, self._own = setup, Path.cwd(), Path()
        self._wanted, self._seconds = wanted, seconds
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
                return Outcome(job.key, job.kata, error=f"no verdict after {self._seconds:g} s")
            except Closed:
                self.close()
        return Outcome(job.key, job.kata, error=f"{TRIES} processes died over it")

    def close(self) -> None:
        """End the worker process. The next submission gets another."""
        worker, self._worker = self._worker, None
        if worker:
            worker.end()
            worker.wait()
            removed(self._own)

    def _started(self) -> WorkerProcess:
        self._own = Path(tempfile.mkdtemp(prefix="pallas-katas-"))
        try:
            unpack(self._sent, self._own)
            environ = without_cluster(os.environ)
            environ["PYTHONPATH"] = f"{self._own}{os.pathsep}{environ.get('PYTHONPATH', '')}"
            setup = dataclasses.replace(self._setup, root=str(self._own))
            return WorkerProcess(setup, environ, self._own)
        except BaseException:
            removed(self._own)
            raise


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
