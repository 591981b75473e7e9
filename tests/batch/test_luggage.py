"""What is sent to the nodes is all that grading needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.batch import cluster_executor
from grader.batch.cluster_executor import COUNT, pack, unpack
from pallascope.tools.versions import PACKAGE, versions
from tests.support.repositories import Repository

SAYS = """
import grader, pathlib
from grader.exercise.catalog import SOLUTIONS, katas
from pallascope.tools.versions import versions
found = katas(pathlib.Path.cwd(), SOLUTIONS)
print(grader.__file__, *(kata.stub_text().count("SOLUTION") for kata in found))
print(versions()["pallas-katas"])
"""


def test_it_is_the_code_and_the_answers_of_the_driver(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository.add("double")
    folder = tmp_path_factory.mktemp("luggage")
    pack(repository.root, folder)
    ran = subprocess.run(
        [sys.executable, "-c", SAYS],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = ran.stdout.splitlines()
    assert first == f"{folder / 'grader' / '__init__.py'} 2"
    assert second == str(versions()[PACKAGE])


def test_it_is_small_and_holds_nothing_of_the_learner(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository.add("double")
    (repository.root / "katas" / "ledger.txt").write_text("mine")
    folder = tmp_path_factory.mktemp("luggage")
    pack(repository.root, folder)
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.relative_to(folder).parts[0] for file in files} <= {
        *("grader", "pallascope", "solutions", COUNT),
        f"{PACKAGE.replace('-', '_')}-{versions()[PACKAGE]}.dist-info",
    }
    assert not [file for file in files if "__pycache__" in file.parts]
    assert sum(file.stat().st_size for file in files) < 8 << 20


def test_a_copy_is_whole_or_none(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    kata = repository.add("double")
    pack(repository.root, tmp_path / "sent")
    unpack(tmp_path / "sent", tmp_path / "own")
    inside = kata.solution.relative_to(repository.root)
    assert (tmp_path / "own" / inside).read_text() == kata.solution.read_text()
    (tmp_path / "sent" / inside).unlink()
    monkeypatch.setattr(cluster_executor, "SECONDS", 0.01)
    with pytest.raises(OSError, match="is not whole"):
        unpack(tmp_path / "sent", tmp_path / "own")
    monkeypatch.setattr(cluster_executor, "SECONDS", 9)
    monkeypatch.setattr(
        cluster_executor.time, "sleep", lambda _: (tmp_path / "sent" / inside).write_text("again")
    )
    unpack(tmp_path / "sent", tmp_path / "own")
    assert (tmp_path / "own" / inside).read_text() == "again"
