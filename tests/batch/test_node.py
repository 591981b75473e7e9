"""What runs on a node. What it gets is todo: that needs no kernel."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from grader.batch.cluster_executor import pack
from grader.batch.executor import Setup, SubmissionJob
from grader.batch.ray_cluster import Node, difference, without_cluster
from grader.exercise.catalog import Kata
from pallascope.tools.versions import versions
from tests.batch.test_local_crew import gone
from tests.support.repositories import Repository


@pytest.fixture
def kata(
    repository: Repository,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Kata:
    """Of a repository that was sent to the node, which is in the current folder."""
    kata = repository.add("double")
    sent = tmp_path_factory.mktemp("sent")
    pack(repository.root, sent)
    monkeypatch.chdir(sent)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("workers")))
    return kata


SETUP = Setup("/where/the/driver/has/it", ("v5e",), "off")


def test_it_grades_replaces_its_worker_and_ends_it(kata: Kata) -> None:
    node = Node(SETUP, versions())
    assert node.ready() == ""
    job = SubmissionJob("key", kata.id, kata.stub_text(), 7)
    assert json.loads(node.grade(job).verdict)["state"] == "todo"
    assert node._worker
    first = node._worker.process.pid
    os.kill(first, signal.SIGKILL)
    assert json.loads(node.grade(job).verdict)["seed"] == 7
    second = node._worker.process.pid
    assert second != first
    node.close()
    assert gone(first)
    assert gone(second)
    assert os.listdir(tempfile.gettempdir()) == []


def test_a_worker_whose_node_is_gone_removes_its_own_folder(kata: Kata) -> None:
    node = Node(SETUP, versions())
    assert node.grade(SubmissionJob("key", kata.id, kata.stub_text(), 7)).verdict
    assert node._worker
    assert len(os.listdir(tempfile.gettempdir())) == 1
    node._worker.channel.close()  # as the end of the node's process would
    node._worker.process.wait(60)
    assert os.listdir(tempfile.gettempdir()) == []


def test_a_worker_that_says_nothing_is_ended(kata: Kata) -> None:
    setup = Setup("/where/the/driver/has/it", ("v5e",), "off", limit=0.01)
    node = Node(setup, versions(), spare=0)
    outcome = node.grade(SubmissionJob("key", kata.id, kata.stub_text(), 7))
    assert (outcome.error, outcome.hopeless) == ("no answer after 0.01 s", False)
    assert node._worker is None


def test_with_other_versions_nothing_is_graded(tmp_path: Path) -> None:
    node = Node(SETUP, {**versions(), "jax": "0.1"})
    outcome = node.grade(SubmissionJob("key", "any", "", 7))
    assert outcome.hopeless
    assert f"has jax {versions()['jax']} (here: 0.1)" in outcome.error


def test_versions_are_compared_by_what_judges() -> None:
    own = {"jax": "1", "libtpu": None}
    assert difference(own, {**own, "other": "2"}) == ""
    assert difference(own, {"jax": "2", "libtpu": "3"}) == (
        "jax 2 (here: 1), libtpu 3 (here: not installed)"
    )


def test_a_worker_is_not_told_of_the_cluster() -> None:
    given = {"RAY_AUTH_TOKEN": "secret", "PYTHONBREAKPOINT": "ray.pdb", "PYTHONPATH": "/p"}
    assert without_cluster(given) == {"PYTHONPATH": "/p"}
