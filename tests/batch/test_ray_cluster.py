"""Ray as the cluster: first what is told where there is none, then, where it is installed, Ray."""

from __future__ import annotations

import importlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from grader.batch import ray_cluster
from grader.batch.executor import ExecutorError, Setup, SubmissionJob
from grader.batch.ray_cluster import (
    NoCluster,
    demand_cluster,
    imported,
    ray_executor,
)
from grader.exercise.catalog import Kata
from pallascope.tools.versions import versions
from tests.support.repositories import Repository


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(NoCluster, match=r"pip install '\.\[scale\]'.*--workers N.*--shard I/N"):
        imported()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("ray://head:10001", r"give auto or HOST:PORT.*a Ray Client \(ray://\) can't be used"),
        ("head", "give auto or HOST:PORT$"),
        (":6379", "give auto or HOST:PORT$"),
        ("head:http", "give auto or HOST:PORT$"),
        ("127.0.0.1:99999", "nothing answers there"),
    ],
)
def test_an_address_that_is_none_is_told(address: str, says: str) -> None:
    with pytest.raises(NoCluster, match=says):
        demand_cluster(address)


def test_where_nothing_listens_it_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(NoCluster, match=r"Connection refused.*`ray start --head`"):
        demand_cluster(f"127.0.0.1:{port}")


def test_where_something_else_listens_it_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(ray_cluster, "PROBE_SECONDS", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(NoCluster, match="no Ray cluster answers there"),
    ):
        demand_cluster(f"127.0.0.1:{other.getsockname()[1]}")


def test_what_keeps_it_from_joining_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import sys; sys.exit('noise\\nREASON RuntimeError: Version mismatch')"
    monkeypatch.setattr(ray_cluster, "PROBE", said)
    with pytest.raises(NoCluster, match=r"--ray auto: RuntimeError: Version mismatch\. `ray start"):
        demand_cluster("auto")
    monkeypatch.setattr(ray_cluster, "PROBE", "import sys; sys.exit('… InvalidAuthToken: …')")
    with pytest.raises(NoCluster, match=r"RAY_AUTH_MODE=token.*RAY_AUTH_TOKEN"):
        demand_cluster("auto")


# ---- with Ray ----


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one node with one core on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")  # Ray reads it as it is imported
        patch.setenv("RAY_AUTH_TOKEN", "0" * 64)
        ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[scale]'")
        utilities = importlib.import_module(f"{ray.__name__}.cluster_utils")
        arguments = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 << 20}
        cluster = utilities.Cluster(initialize_head=True, head_node_args=arguments)
        yield cluster.address
        cluster.shutdown()


@pytest.fixture
def kata(repository: Repository) -> Kata:
    return repository.add("double")


def jobs(kata: Kata, count: int) -> list[SubmissionJob]:
    return [
        SubmissionJob(str(number), kata.id, kata.stub_text(), number) for number in range(count)
    ]


def test_a_node_grades_with_what_is_sent_along(address: str, kata: Kata) -> None:
    setup = Setup(str(kata.root), ("v5e",), "off")
    with ray_executor(setup, address, None, print) as executor:
        found = {one.key: json.loads(one.verdict) for one in executor.outcomes(jobs(kata, 5))}
    assert {key: verdict["seed"] for key, verdict in found.items()} == {
        str(number): number for number in range(5)
    }
    assert {verdict["state"] for verdict in found.values()} == {"todo"}


def test_an_actor_that_dies_is_started_again(address: str, kata: Kata) -> None:
    setup = Setup(str(kata.root), ("v5e",), "off")
    with ray_executor(setup, address, 1, print) as executor:
        found = []
        for outcome in executor.outcomes(jobs(kata, 3)):
            found.append(outcome)
            if len(found) == 1:
                (call,) = [*executor._idle, *executor._calls.values()]
                imported().kill(call.actor, no_restart=False)
    assert sorted((one.key, one.error) for one in found) == [("0", ""), ("1", ""), ("2", "")]


def test_what_cannot_be_graded_anywhere_ends_it(
    address: str, kata: Kata, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(str(kata.root), ("v5e",), "off")
    monkeypatch.setattr(ray_cluster, "versions", lambda: {**versions(), "jax": "0.1"})
    with (
        ray_executor(setup, address, 1, print) as executor,
        pytest.raises(ExecutorError, match=r"the node .* has jax .* \(here: 0\.1\)"),
    ):
        list(executor.outcomes(jobs(kata, 1)))
