"""The actor on a node, in this process. It gets a stub, which needs no kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.batch.executor import Setup, SubmissionJob
from grader.batch.ray_cluster import Node, difference, runtime_env
from grader.exercise.catalog import Kata
from pallascope.tools.versions import PACKAGE, versions
from tests.support.repositories import Repository

SETUP = Setup("/where/the/driver/has/it", ("v5e",), "off")
PRINTS = """
import grader, pathlib
from grader.exercise.catalog import SOLUTIONS, katas
from pallascope.tools.versions import versions
found = katas(pathlib.Path.cwd(), SOLUTIONS)
print(grader.__file__, *(kata.stub_text().count("SOLUTION") for kata in found))
print(versions()["pallas-katas"])
"""


@pytest.fixture
def kata(repository: Repository) -> Kata:
    return repository.add("double")


@pytest.fixture
def sent(kata: Kata, repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that Ray makes the current one on each node."""
    (repository.root / "katas" / "ledger.txt").write_text("mine")
    folder = tmp_path_factory.mktemp("sent")
    environment = runtime_env(repository.root, folder)
    assert environment["working_dir"] == str(folder)
    return folder


def test_a_node_gets_the_solutions_and_nothing_of_the_learner(sent: Path) -> None:
    files = [file.relative_to(sent) for file in sent.rglob("*") if file.is_file()]
    assert {file.parts[0] for file in files} <= {
        "solutions",
        f"{PACKAGE.replace('-', '_')}-{versions()[PACKAGE]}.dist-info",
    }
    assert len([file for file in files if file.parts[0] == "solutions"]) == 2
    assert not [file for file in files if "__pycache__" in file.parts]


def test_a_node_has_the_drivers_code_and_version(
    sent: Path, repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = runtime_env(repository.root, tmp_path_factory.mktemp("again"))
    modules = [Path(module) for module in environment["py_modules"]]
    assert [module.name for module in modules] == ["grader", "pallascope"]
    ran = subprocess.run(
        [sys.executable, "-c", PRINTS],
        cwd=sent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(sent), str(modules[0].parent)])},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = ran.stdout.splitlines()
    assert first == f"{modules[0] / '__init__.py'} 2"
    assert second == str(versions()[PACKAGE])


def test_it_grades(sent: Path, kata: Kata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sent)
    monkeypatch.setenv("PYTHONBREAKPOINT", "ray.util.pdb.set_trace")
    node = Node(SETUP, versions())
    assert node.ready() == ""
    found = node.grade(SubmissionJob("key", kata.id, kata.stub_text(), 7))
    assert (found.key, json.loads(found.verdict)["state"]) == ("key", "todo")
    assert node._examiner
    node._examiner.close()
    assert "PYTHONBREAKPOINT" not in os.environ


def test_a_node_that_cannot_grade_says_why(sent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sent)
    node = Node(SETUP, {**versions(), "jax": "0.1"})
    outcome = node.grade(SubmissionJob("key", "any", "", 7))
    assert outcome.fatal
    assert f"has jax {versions()['jax']} (here: 0.1)" in outcome.error
    assert "no chip" in Node(Setup("", ("v0",), "off"), versions()).ready()


def test_versions_are_compared_by_what_judges() -> None:
    own = {"jax": "1", "libtpu": None}
    assert difference(own, {**own, "other": "2"}) == ""
    assert difference(own, {"jax": "2", "libtpu": "3"}) == (
        "jax 2 (here: 1), libtpu 3 (here: not installed)"
    )
