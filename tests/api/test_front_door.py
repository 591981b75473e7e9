"""`grader.api` as the authors of other programs meet it."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grader.api import Examiner, ExaminerPool, Report
from grader.exercise.catalog import katas
from grader.verdict import State
from tests.support.repositories import ROOT

ADD = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
WHOLE = ADD.solution.read_text(encoding="utf-8")
WRONG = WHOLE.replace("+ 10", "+ 1")
SLEEPS = f"import time\ntime.sleep(1)\n{WHOLE}"


def an_examiner() -> Examiner:
    return Examiner(isolation="auto", root=ROOT)


@pytest.fixture(scope="module")
def examiner() -> Iterator[Examiner]:
    with an_examiner() as examiner:
        yield examiner


def test_a_report_goes_through_pickle_and_json(examiner: Examiner) -> None:
    for text in (WHOLE, ""):
        report = examiner.grade(ADD.id, text, seed=1)
        assert pickle.loads(pickle.dumps(report)) == report
        found = json.loads(json.dumps(report.as_dict()))
        assert (found["state"], found["reward"]) == (report.state.value, report.reward())
        assert len(found["grades"]) == len(report.grades)
        assert hash(report)


def test_two_threads_are_told(examiner: Examiner) -> None:
    with ThreadPoolExecutor(1) as other:
        first = other.submit(examiner.grade, ADD.id, SLEEPS, 1)
        while not examiner._busy.locked():
            time.sleep(0.01)
        with pytest.raises(RuntimeError, match="or an ExaminerPool"):
            examiner.grade(ADD.id, WHOLE)
        with pytest.raises(RuntimeError, match="for another thread"):
            examiner.close()
        assert first.result().state is State.PASSED


def test_an_interrupted_grade_leaves_it_usable(
    examiner: Examiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    examiner.grade(ADD.id, "")
    with monkeypatch.context() as patched:
        patched.setattr(Examiner, "_graded", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            examiner.grade(ADD.id, WHOLE)
    assert examiner.pool is None
    assert examiner.grade(ADD.id, "").state is State.FAILED


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_starts_its_own_and_leaves_its_parents(examiner: Examiner) -> None:
    assert examiner.grade(ADD.id, WHOLE, seed=1).state is State.PASSED
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply(_graded_by, (id(examiner),))
    assert found == "passed"
    assert examiner.grade(ADD.id, WRONG, seed=1).state is State.FAILED


def _graded_by(number: int) -> str:
    """In a fork, by the Examiner of this id, which nothing can pickle."""
    import gc

    one = next(each for each in gc.get_objects() if id(each) == number)
    assert isinstance(one, Examiner)
    try:
        return one.grade(ADD.id, WHOLE, seed=1).state.value
    finally:
        one.close()


def test_an_examiner_is_not_sent_elsewhere(examiner: Examiner) -> None:
    with pytest.raises(
        TypeError,
        match="an Examiner owns processes, so it can't be copied: make one in each process",
    ):
        pickle.dumps(examiner)


def test_a_seed_is_an_integer(examiner: Examiner) -> None:
    with pytest.raises(TypeError, match="the seed is str, and must be int"):
        examiner.grade(ADD.id, WHOLE, "7")  # type: ignore[arg-type]


def test_a_pool_serves_an_event_loop_and_threads() -> None:
    made: list[Examiner] = []

    def make() -> Examiner:
        made.append(an_examiner())
        return made[-1]

    async def graded() -> list[Report]:
        async with ExaminerPool(make, size=2) as pool:
            ticks = asyncio.create_task(_ticking())
            texts = (WHOLE, WRONG, "")
            reports = await asyncio.gather(*(pool.agrade(ADD.id, text, 1) for text in texts))
            assert ticks.cancel()  # it went on meanwhile
            return [*reports, await asyncio.to_thread(pool.grade, ADD.id, "", 1)]

    states = [report.state.value for report in asyncio.run(graded())]
    assert states == ["passed", "failed", "failed", "failed"]
    assert len(made) <= 2
    assert not [one for one in made if one.pool]


async def _ticking() -> None:
    while True:
        await asyncio.sleep(0.01)


def test_a_closed_pool_grades_no_more() -> None:
    pool = ExaminerPool(an_examiner)
    pool.close()
    with pytest.raises(RuntimeError):
        pool.grade(ADD.id, WHOLE)


CLIENT = """
from grader.verdict import Cost, Finding, State; from grader.api import Examiner, Report

def parts(report: Report) -> tuple[State, Finding | None, Cost | None, float | None]:
    return report.state, report.finding, report.cost, report.speed

def reward(examiner: Examiner, kata: str, text: str) -> float:
    report = examiner.grade(kata, text, seed=7)
    reveal_type(report.grades[0].stars)
    print(parts(report), dict(report.versions)["jax"])
    return report.reward()

with Examiner(chips=("v5e",), isolation="require") as examiner:
    for kata in examiner.katas:
        print(reward(examiner, kata, ""))
"""


def test_a_client_is_checked_by_its_types(tmp_path: Path) -> None:
    """With py.typed, and as strictly as pyright can."""
    pyright = Path(sys.executable).parent / "pyright"
    if not pyright.exists():
        pytest.skip("pyright is not installed")
    (tmp_path / "client.py").write_text(CLIENT, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    ran = subprocess.run(
        [str(pyright), "--pythonpath", sys.executable, "-p", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'Type of "report.grades[0].stars" is "int"' in ran.stdout, ran.stdout
    assert "0 errors" in ran.stdout, ran.stdout


def test_the_package_says_that_it_has_types() -> None:
    assert (ROOT / "grader/py.typed").exists()
    assert os.path.getsize(ROOT / "grader/py.typed") == 0


def test_no_thread_is_left(examiner: Examiner) -> None:
    examiner.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("examiner")]
