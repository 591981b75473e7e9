"""`kata grade --ray`: grading on the nodes of a Ray cluster.

Each core of the cluster gets an actor with an Examiner. Ray places the actors, restarts those that
die, and sends them the grader and the solutions (`runtime_env`), so a node needs only the packages
that these import. The driver hands out submissions, and only the driver writes verdicts; it runs on
a machine of the cluster. Ray is an extra, imported only for `--ray`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader.api import Examiner
from grader.batch.batch_worker import examiner_of, outcome_of
from grader.batch.executor import ExecutorError, JobQueue, Outcome, Setup, SubmissionJob
from grader.exercise.catalog import SOLUTIONS, solutions_of
from grader.sandbox.isolation import NotIsolated
from pallascope.tools.versions import PACKAGE, versions

TRIES = 4  # of one submission; usually the node is to blame
TICK = 5.0  # seconds between two queries of the cluster's number of cores
TELL_SECONDS = 60.0
PATIENCE_SECONDS = 900.0  # to wait for a node: cloud machines take minutes to start
SPARE_SECONDS = 240.0  # beyond a submission's limit, for starting processes on a busy machine


class Node:
    """The actor: an Examiner with the solutions sent by the driver, in the current folder.

    `wanted` are the driver's versions of the packages that decide verdicts. A node with other
    versions grades nothing, because verdicts are stored under the driver's versions.
    """

    def __init__(self, setup: Setup, wanted: Mapping[str, str | None]) -> None:
        os.environ.pop("PYTHONBREAKPOINT", None)  # Ray's debugger; workers would inherit it
        self._setup, self._wanted = replace(setup, root=os.getcwd()), wanted
        self._examiner: Examiner | None = None

    def ready(self) -> str:
        """Why nothing can be graded here; "" if nothing is wrong."""
        if unlike := difference(self._wanted, versions()):
            return f"the node {socket.gethostname()} has {unlike}"
        try:
            self._examiner = self._examiner or examiner_of(self._setup)
        except (NotIsolated, ValueError) as error:
            return str(error)
        return ""

    def grade(self, job: SubmissionJob) -> Outcome:
        """The verdict, or why there is none."""
        if reason := self.ready():
            return Outcome(job.key, job.kata, error=reason, fatal=True)
        assert self._examiner
        return outcome_of(self._examiner, job)


def difference(wanted: Mapping[str, str | None], own: Mapping[str, str | None]) -> str:
    """The versions that differ from the driver's, in words; "" if none do."""
    return ", ".join(
        f"{name} {own.get(name) or 'not installed'} (here: {of or 'not installed'})"
        for name, of in wanted.items()
        if own.get(name) != of
    )


@dataclass(slots=True)
class _Call:
    """A call to an actor that isn't answered yet: `ready`, or `grade` if there is a job."""

    actor: Any
    kata: str = ""  # of the actor's latest job
    job: SubmissionJob | None = None
    begun: float = field(default_factory=time.monotonic)


class RayExecutor:
    """Actors of one core each: `count`, or one per core of the cluster if it is None.

    An actor gets a submission only once it has answered `ready`, so no submission waits for a core.
    Ray would repeat a lost `grade` on the same actor after restarting it; here the next free actor
    grades it.
    """

    def __init__(
        self, ray: Any, setup: Setup, count: int | None, tell: Callable[[str], None]
    ) -> None:
        self._ray, self._count, self._tell = ray, count, tell
        self._seconds = setup.limit + SPARE_SECONDS
        actors = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Node)
        self._new_actor = functools.partial(actors.remote, setup, versions())
        self._calls: dict[Any, _Call] = {}
        self._idle: list[_Call] = []
        self._size = 0  # actors so far

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        """The outcome of each job, as they end. Raises ExecutorError."""
        waiting, lost = JobQueue(jobs), Counter[str]()
        worked = told = time.monotonic()
        while waiting or self._busy():
            self._add_actors(len(waiting))
            while self._idle and waiting:
                self._grade(self._idle.pop(), waiting)
            done, _ = self._ray.wait(list(self._calls), timeout=TICK)
            yield from self._ended(done, waiting, lost)
            yield from self._overdue()
            now = time.monotonic()
            if self._busy():
                worked = told = now
            elif now - worked > PATIENCE_SECONDS:
                minutes = f"{PATIENCE_SECONDS / 60:g} minutes"
                raise ExecutorError(f"no node of the cluster had a free core for {minutes}")
            elif now - told > TELL_SECONDS:
                told = now
                self._tell(f"waiting for a free core of the cluster, for {self._size} workers")

    def _busy(self) -> bool:
        return any(call.job for call in self._calls.values())

    def _add_actors(self, jobs: int) -> None:
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        wanted = cores if self._count is None else self._count
        while self._size < min(max(wanted, 1), jobs):
            self._ask_ready(_Call(self._new_actor()))
            self._size += 1

    def _ask_ready(self, call: _Call) -> None:
        self._calls[call.actor.ready.remote()] = replace(call, job=None)

    def _grade(self, idle: _Call, waiting: JobQueue) -> None:
        job = waiting.next_for(idle.kata)
        asked = idle.actor.grade.options(max_task_retries=0).remote(job)
        self._calls[asked] = _Call(idle.actor, job.kata, job)

    def _ended(
        self, done: Iterable[Any], waiting: JobQueue, lost: Counter[str]
    ) -> Iterator[Outcome]:
        """Process the answers of these calls. A job whose actor dies is tried up to TRIES times."""
        for ref in done:
            call = self._calls.pop(ref)
            try:
                found = self._answer(ref)
            except self._ray.exceptions.RayError as error:
                self._ask_ready(call)
                if call.job:
                    lost[call.job.key] += 1
                    if lost[call.job.key] < TRIES:
                        waiting.add(call.job)
                        continue
                    why = f"{TRIES} nodes were lost while grading it ({type(error).__name__})"
                    yield Outcome(call.job.key, call.job.kata, error=why)
                continue
            self._idle.append(call)
            if isinstance(found, Outcome):
                if found.fatal:
                    raise ExecutorError(found.error)
                yield found
            elif found:
                raise ExecutorError(found)

    def _answer(self, ref: Any) -> Outcome | str:
        """Raises RayError if the actor has died, ExecutorError if every actor would fail."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except errors.RayTaskError as error:  # the node's code, or a module that it imports
            raise ExecutorError(f"a node can't grade: {_last(error)}") from None
        except errors.RuntimeEnvSetupError as error:
            raise ExecutorError(f"a node can't take the repository: {_last(error)}") from None
        except errors.ActorUnschedulableError as error:
            raise ExecutorError(str(error)) from None

    def _overdue(self) -> Iterator[Outcome]:
        """Restart the actors that have not answered in time, and give up their jobs."""
        for ref, call in list(self._calls.items()):
            if call.job and time.monotonic() - call.begun > self._seconds:
                del self._calls[ref]
                self._ray.kill(call.actor, no_restart=False)
                self._ask_ready(call)
                why = f"no answer after {self._seconds:g} s"
                yield Outcome(call.job.key, call.job.kata, error=why)


def _last(error: Exception) -> str:
    """The line of a remote traceback that has the error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__


REACH_SECONDS = 5.0
PROBE_SECONDS = 30.0
BYTECODE = "__pycache__"
#: Ray would kill an actor's child processes as it ends; ours remove their files and end themselves.
RAY_VARIABLES = {"RAY_kill_child_processes_on_worker_exit": "0"}
PROBE = """
import sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False, configure_logging=False)
except Exception as error:
    sys.exit(f"REASON {type(error).__name__}: {error}")
ray.shutdown()
"""


class NoCluster(ValueError):
    """Ray isn't installed, or no cluster answers at the address. The text has a remedy."""


@contextlib.contextmanager
def ray_executor(
    setup: Setup, address: str, count: int | None, tell: Callable[[str], None]
) -> Iterator[RayExecutor]:
    """An executor on the cluster at `address`, after `demand` has found it.

    `tell` prints a line about the progress.
    """
    ray = imported()
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # within `ray job submit`
    with tempfile.TemporaryDirectory(prefix="pallas-katas-") as folder:
        environment = runtime_env(Path(setup.root), Path(folder))
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=environment)
    try:
        yield RayExecutor(ray, setup, count, tell)
    finally:
        ray.shutdown()  # the job's actors end with it


def runtime_env(root: Path, folder: Path) -> dict[str, Any]:
    """The solutions at `root`, copied to `folder`, and the driver's grader: about 4 MB.

    So a node grades with the driver's code and solutions, whether or not it has this package
    installed, in any version; the metadata have the driver's version.
    """
    ignore = shutil.ignore_patterns(BYTECODE)
    shutil.copytree(solutions_of(root), folder / SOLUTIONS, ignore=ignore)
    if version := versions()[PACKAGE]:
        metadata = folder / f"{PACKAGE.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n")
    installed = Path(__file__).resolve().parents[2]
    return {
        "working_dir": str(folder),
        "py_modules": [str(installed / name) for name in ("grader", "pallascope")],
        "excludes": [BYTECODE],
        "env_vars": RAY_VARIABLES,
    }


def demand(address: str) -> None:
    """Raise NoCluster unless Ray is installed and its cluster at `address` answers.

    "auto" is the cluster that this machine belongs to, HOST:PORT the one with this head.
    """
    imported()
    demand_cluster(address)


def imported() -> Any:
    """The module `ray`. Raises NoCluster if it isn't installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise NoCluster(
            f"--ray needs Ray, which can't be imported ({error}): pip install '.[scale]' in your "
            "clone; without it, --workers N grades on this machine, and --shard I/N on several"
        ) from None


def demand_cluster(address: str) -> None:
    """Raise NoCluster if no cluster answers. Ray itself tries for over a minute, then exits."""
    if "://" in address:
        raise NoCluster(
            f"--ray {address}: give auto or HOST:PORT, on a machine of the cluster, such as its "
            "head; a Ray Client (ray://) can't be used"
        )
    if address != "auto":
        _demand_port(address)
    asked = [sys.executable, "-c", PROBE, address]
    try:
        probed = subprocess.run(asked, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        raise NoCluster(
            f"--ray {address}: no Ray cluster answers there in {PROBE_SECONDS:g} s"
        ) from None
    if probed.returncode:
        raise NoCluster(f"--ray {address}: {_reason(probed.stderr)}")


def _reason(complaint: str) -> str:
    """The reason why a probe could not join, and a remedy."""
    if "InvalidAuthToken" in complaint:
        return (
            "the cluster requires a token. Set RAY_AUTH_MODE=token, and put the token into "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token"
        )
    said = complaint.rpartition("REASON ")[2].strip()[-1000:]
    return f"{said or 'no cluster answers'}. `ray start --head` starts one"


def _demand_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise NoCluster(f"--ray {address}: give auto or HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise NoCluster(
            f"--ray {address}: nothing answers there ({error}). `ray start --head` starts a "
            "cluster, and prints its address"
        ) from None
