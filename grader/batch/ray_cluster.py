"""Ray as the cluster: nodes, actors, retries.

What runs on a node of a cluster: one warm worker process, asked by a driver elsewhere.
An Examiner is not made in the cluster's own process: whatever ends that one (its node, its driver,
a lack of memory), the worker process sees its socket close, and takes its processes and files with
it.

Ray, as the cluster that a crew works on. Ray is imported by whoever asks for it, and not before.
The driver reaches the cluster as one of its machines; it alone writes verdicts. The repository is
sent along (see `luggage`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.batch.cluster_executor import ClusterCrew, Lost, is_whole, pack, unpack
from grader.batch.executor import TRIES, ExecutorError, Outcome, Setup, SubmissionJob, WorkerProcess
from grader.sandbox.worker_files import removed
from pallascope.tools.child_process import ConnectionClosed
from pallascope.tools.versions import versions

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

    def grade(self, job: SubmissionJob) -> Outcome:
        """The verdict, or why there is none. A worker that dies is replaced, and asked again."""
        if reason := self.ready():
            return Outcome(job.key, job.kata, error=reason, fatal=True)
        for _ in range(TRIES):
            worker = self._worker = self._worker or self._started()
            worker.begin(job)
            try:
                return worker.outcome(self._seconds)
            except TimeoutError:
                self.close()
                return Outcome(job.key, job.kata, error=f"no answer after {self._seconds:g} s")
            except ConnectionClosed:
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


REACH_SECONDS = 5.0
PROBE_SECONDS = 30.0
#: Ray would kill an actor's children as it ends; ours end by themselves, and tidy up first.
WITH_LEAVE = {"RAY_kill_child_processes_on_worker_exit": "0"}
PROBE = """
import sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False, configure_logging=False)
except Exception as error:
    sys.exit(f"REASON {type(error).__name__}: {error}")
ray.shutdown()
"""


class NoCluster(ValueError):
    """There is no Ray, or no cluster of it where one was asked for; says what to do."""


@contextlib.contextmanager
def ray_crew(
    setup: Setup,
    address: str,
    count: int | None,
    tell: Callable[[str], None],
) -> Iterator[ClusterCrew]:
    """A crew on the cluster at `address`, of which `demand` has found that it is there.

    `count` actors, of one core each; with None as many as the cluster has cores. `tell` is for what
    a person should know who waits.
    """
    ray = imported()
    with tempfile.TemporaryDirectory(prefix="pallas-katas-") as folder:
        pack(Path(setup.root), Path(folder))
        os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # within `ray job submit`
        ray.init(
            address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"working_dir": folder, "env_vars": WITH_LEAVE},
        )
    try:
        yield ClusterCrew(RayCluster(ray, setup), count, tell)
    finally:
        ray.shutdown()  # the job's actors end with it


def demand(address: str) -> None:
    """Raise NoCluster unless Ray is installed and its cluster at `address` answers.

    "auto" is the cluster that this machine is a node of, HOST:PORT the one with this head.
    """
    imported()
    demand_cluster(address)


def imported() -> Any:
    """Ray. Raises NoCluster where it isn't installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise NoCluster(
            f"--ray needs Ray, which can't be imported ({error}): pip install '.[scale]' in your "
            "clone; without it, --workers N grades on this machine, and --shard I/N on several"
        ) from None


def demand_cluster(address: str) -> None:
    """Raise NoCluster where no cluster answers. Ray itself tries for over a minute, and exits."""
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
    """What kept a probe from joining, and what to do about it."""
    if "InvalidAuthToken" in complaint:
        return (
            "the cluster wants a token. Set RAY_AUTH_MODE=token, and put its token into "
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
            "cluster, and says its address"
        ) from None


class RayCluster:
    """Actors of one core each, which Ray starts again on another node where theirs dies.

    A call to grade is not repeated by Ray, which would wait for the same actor: the crew gives the
    submission to whoever is free.
    """

    def __init__(self, ray: Any, setup: Setup) -> None:
        self._ray = ray
        self._arguments = (setup, versions())
        self._actors = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Node)

    def cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def hired(self) -> Any:
        return self._actors.remote(*self._arguments)

    def ready(self, hand: Any) -> Any:
        return hand.ready.remote()

    def grade(self, hand: Any, job: SubmissionJob) -> Any:
        return hand.grade.options(max_task_retries=0).remote(job)

    def done(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        done, _ = self._ray.wait(list(calls), num_returns=1, timeout=seconds)
        more, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return more or done

    def answer(self, call: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:  # the node's own code, or what it imports
            raise ExecutorError(f"a node can't grade: {_last(error)}") from None
        except errors.RuntimeEnvSetupError as error:
            raise ExecutorError(f"a node can't take the repository: {_last(error)}") from None
        except errors.ActorUnschedulableError as error:
            raise ExecutorError(str(error)) from None
        except errors.RayError as error:
            raise Lost(type(error).__name__) from None


def _last(error: Exception) -> str:
    """The line of a remote traceback that says what it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__
