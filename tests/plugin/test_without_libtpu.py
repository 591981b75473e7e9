"""A session where libtpu is not installed: what is solved there, and what nobody can know."""

from __future__ import annotations

import pytest

from grader.cli import main
from grader.exercise.catalog import katas
from grader.record.ledger import read_ledger
from pallascope.model import Check
from pallascope.tpu import libtpu
from tests.support.repositories import ROOT, Ran, Repository

#: Python imports this at its start, in pytest and in all workers.
NO_LIBTPU = """import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "libtpu" else found(name, *more)
"""
TOLD = "This is told of what is solved"
AFTER = f'after = """{TOLD}.{(chr(10) + "word after word") * 12}"""'
OF_VMEM = """
[[mistakes]]
title = "takes whole arrays"
old = "* 2"
new = "* 1"
caught = "compiles"
says = "needs 134 MiB of VMEM"
"""


@pytest.fixture
def ran(repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Three katas: one solved, one that is about VMEM, and solved too, and a stub."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(NO_LIBTPU)
    about = f"{AFTER}\n{Repository.KEY}{OF_VMEM}"
    repository.solve(repository.add("double"))
    repository.solve(repository.add("fits", number=2, key=about))
    repository.add("open", number=3)
    summary = f"--kata-summary={repository.root / 'summary.md'}"
    return repository.process(summary, PYTHONPATH=f"{folder}:{ROOT}", COLUMNS="120", CI="")


def test_the_point_of_an_exercise_has_to_be_judged(
    ran: Ran,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "✔ 01 ★☆☆ double  compiles: not judged" in ran.out
    assert "~ 02 ☆☆☆ fits    compiles: not judged" in ran.out
    assert "1 of 3 solved, 0 failed, 1 todo, 1 not judged   1 of 9 stars" in ran.out
    assert "not solved, because this check is their main point: fits\n" in ran.out
    assert TOLD not in ran.out
    assert {grade["stars"] for grade in ran.grades["fits"]} == {0}
    assert "| ~ | 02 fits | ☆☆☆ |" in (repository.root / "summary.md").read_text()
    assert [one.kata for one in read_ledger(repository.root).passes] == ["1_first/kata_01_double"]
    monkeypatch.chdir(repository.root)
    assert main(["next"]) == 0
    assert "kata_02_fits.py" in capsys.readouterr().out
    monkeypatch.setattr(libtpu, "unavailable_reason", lambda: "not here")
    assert main(["next"]) == 0
    assert "kata_03_open.py" in capsys.readouterr().out


def test_the_exercises_whose_point_nobody_can_judge_without_libtpu() -> None:
    """Those that require par, or whose known mistakes are mostly libtpu's or XLA's to find."""
    found = [
        kata.name
        for kata in katas(ROOT, "solutions")
        if kata.key.is_about(Check.PREDICTIONS if kata.key.predictions else Check.COMPILES)
    ]
    assert found == [
        "leave_it_to_xla",
        "right_and_slow",
        "fused_adam",
        "lookahead",
        "fit_vmem",
        "tune_blocks",
        "kv_cache_write",
        "rpa_fused_write",
    ]
