"""Ray, as the cluster that a crew works on. Ray is imported by whoever asks for it, and not before.

The driver reaches the cluster as one of its machines; it alone writes verdicts. The repository is
sent along (see `luggage`).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from grader.batch.cluster_crew import ClusterCrew, Lost
from grader.batch.crew import Hopeless
from grader.batch.luggage import pack
from grader.batch.node import Node
from grader.batch.orders import Job, Setup
from grader.tools.versions import versions

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

    def grade(self, hand: Any, job: Job) -> Any:
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
            raise Hopeless(f"a node can't grade: {_last(error)}") from None
        except errors.RuntimeEnvSetupError as error:
            raise Hopeless(f"a node can't take the repository: {_last(error)}") from None
        except errors.ActorUnschedulableError as error:
            raise Hopeless(str(error)) from None
        except errors.RayError as error:
            raise Lost(type(error).__name__) from None


def _last(error: Exception) -> str:
    """The line of a remote traceback that says what it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__
