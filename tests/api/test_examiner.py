"""Texts graded without pytest, and the same texts graded by pytest."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader import api
from grader.api import Examiner, Report, UnknownKata
from grader.batch.batch_worker import verdict_of
from grader.exercise.catalog import MAX_GRADED_BYTES, Kata, Submission, katas
from grader.exercise.mutants import wrong_version
from grader.sandbox.isolation import confine
from grader.sandbox.isolation.confine import NotIsolated
from grader.sandbox.messages import Question, WorkerRole
from grader.sandbox.worker_pool import Worker
from grader.verdict import (
    Conditions,
    Cost,
    Device,
    Grade,
    State,
)
from pallascope.model import Mode
from pallascope.tools import codec
from pallascope.tools.text import printable
from tests.support.repositories import ROOT, Repository

SEED = 1
EVERY = katas(ROOT, "solutions")
#: Two that cost little.
CHOSEN = tuple(kata for kata in EVERY if kata.name in ("constant_add", "scale_2d"))
ADD = CHOSEN[0]
WHOLE = ADD.solution.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Kata:
    """An exercise whose time limit is a second, in a repository with the chosen ones."""
    repository = Repository(tmp_path_factory.mktemp("examined"))
    for kata in CHOSEN:
        for file in (kata.solution, kata.key_path):
            copy = repository.root / file.relative_to(ROOT)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return repository.add("double", "9_slow", key=f"timeout = 1\n{Repository.KEY}")


@pytest.fixture(scope="module")
def examiner(slow: Kata) -> Iterator[Examiner]:
    with Examiner(isolation="auto", root=slow.root) as examiner:
        yield examiner


def versions_of(kata: Kata) -> tuple[str, str, str]:
    """Stub, solution and the solution with its first known mistake."""
    solution = kata.solution.read_text(encoding="utf-8")
    return kata.stub_text(), solution, wrong_version(solution, kata.key.mistakes[0])


def comparable(grade: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in grade.items() if name != "seconds"}


@pytest.mark.parametrize("number", range(3), ids=("stubs", "solutions", "mistakes"))
def test_verdicts_are_those_of_pytest(
    number: int, examiner: Examiner, repository: Repository
) -> None:
    solutions = repository.root / "solutions"
    solutions.rmdir()
    solutions.symlink_to(ROOT / "solutions")
    for kata in CHOSEN:
        file = Kata(repository.root, kata.track, kata.stem).path
        file.parent.mkdir(exist_ok=True)
        file.write_text(versions_of(kata)[number], encoding="utf-8")
    repository.pytest(f"--kata-seed={SEED}", "katas")
    told = json.loads(repository.grades.read_text())["grades"]
    for kata in CHOSEN:
        report = examiner.grade(kata.id, versions_of(kata)[number], seed=SEED)
        found = [comparable(codec.to_builtins(grade)) for grade in report.grades]
        assert found
        assert found == [comparable(grade) for grade in told if grade["kata"] == kata.id]


def test_a_report_says_what_was_judged_and_by_what(examiner: Examiner) -> None:
    report = examiner.grade(ADD.id, WHOLE, seed=SEED)
    assert (report.kata, report.seed, report.state) == (ADD.id, SEED, State.PASSED)
    assert report.finding is None
    assert len(report.grades) == ADD.key.total
    assert dict(report.versions)["jax"]
    assert report.conditions.chips == ("v5e",)
    assert report.reward() == pytest.approx(report.stars / 3)
    if report.stars == 3:
        assert report.cost
        assert report.speed == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "has lost its test", id="empty"),
        pytest.param("def constant_add(:\n", "SyntaxError", id="syntax"),
        pytest.param("\0", "null bytes", id="null-byte"),
        pytest.param(f"{WHOLE}\ud800", "SyntaxError", id="half-a-surrogate-pair"),
        pytest.param("#" * (MAX_GRADED_BYTES + 1), "too long (1,048,577 bytes)", id="too-long"),
    ],
)
def test_what_is_no_file_fails_in_words(text: str, says: str, examiner: Examiner) -> None:
    report = examiner.grade(ADD.id, text, seed=SEED)
    assert (report.state, report.stars, report.reward()) == (State.FAILED, 0, 0)
    assert report.finding
    assert says in report.finding.phrase


def test_the_unchanged_stub_is_todo(examiner: Examiner) -> None:
    report = examiner.grade(ADD.id, ADD.stub_text().replace("\n", "\r\n"))
    assert (report.state, report.reward()) == (State.TODO, 0)


def test_an_unknown_exercise_is_told_which_is_meant(examiner: Examiner) -> None:
    with pytest.raises(UnknownKata, match=f"did you mean {ADD.id}"):
        examiner.grade(ADD.id[:-1], WHOLE)
    with pytest.raises(UnknownKata, match=f"its id is '{ADD.id}'"):
        examiner.grade(ADD.name, WHOLE)


def test_bytes_are_no_text(examiner: Examiner) -> None:
    with pytest.raises(TypeError, match="is bytes, and must be str"):
        examiner.grade(ADD.id, WHOLE.encode())  # type: ignore[arg-type]


def test_what_some_do_leaves_the_next_alone(slow: Kata, examiner: Examiner) -> None:
    text = slow.solution.read_text(encoding="utf-8")
    for first, says in (
        ("while True: pass", "no answer after 1 s"),
        ("import os; os._exit(3)", "left the process (exit code 3)"),
        ("import os; os.abort()", "crashed (SIGABRT)"),
    ):
        report = examiner.grade(slow.id, text.replace("o_ref[...] =", f"{first}\n    o_ref[...] ="))
        assert report.finding
        assert report.finding.phrase == says
    assert examiner.grade(ADD.id, WHOLE, seed=SEED).state is State.PASSED


def test_all_cases_together_have_a_limit(slow: Kata) -> None:
    """Each stays below its own here."""
    late = f"import time; time.sleep(600)\n{WHOLE}"
    with Examiner(isolation="auto", root=slow.root, limit=0.5) as examiner:
        report = examiner.grade(ADD.id, late, seed=SEED)
        assert examiner.pool is None
    assert report.finding
    assert report.finding.phrase == "no verdict after 0.5 s"
    assert [grade.blob for grade in report.grades] == [report.blob] * ADD.key.total


def test_the_same_text_again_gets_a_process_of_its_own(examiner: Examiner) -> None:
    once = f"""{WHOLE}
import os
if os.path.exists("been_here"):
    raise RuntimeError("graded before")
open("been_here", "w").close()
import jax
if hasattr(jax, "been_here"):
    raise RuntimeError("imported before")
jax.been_here = True
"""
    for _ in range(2):
        assert examiner.grade(ADD.id, once, seed=SEED).state is State.PASSED


def test_a_closed_examiner_starts_anew(examiner: Examiner) -> None:
    examiner.close()
    assert examiner.grade(ADD.id, "").state is State.FAILED


def test_a_changed_solution_grades_nobody(slow: Kata, examiner: Examiner) -> None:
    examiner.grade(slow.id, "")
    text = slow.solution.read_text(encoding="utf-8")
    slow.solution.write_text(f"{text}\n", encoding="utf-8")
    try:
        with pytest.raises(Exception, match="has changed since this session began"):
            examiner.grade(slow.id, "")
    finally:
        slow.solution.write_text(text, encoding="utf-8")


def test_required_isolation_is_had_or_refused(monkeypatch: pytest.MonkeyPatch, slow: Kata) -> None:
    monkeypatch.setattr(confine.sys, "platform", "elsewhere")
    with pytest.raises(NotIsolated, match="only Linux"):
        Examiner(root=slow.root)


def test_wrong_arguments_are_told(slow: Kata, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no chip 'v0'"):
        Examiner(("v0",), "auto", slow.root)
    with pytest.raises(ValueError, match="in a tuple"):
        Examiner("v5e", "auto", slow.root)
    with pytest.raises(ValueError, match="a limit above 0"):
        Examiner(isolation="auto", root=slow.root, seconds=0)
    with pytest.raises(ValueError, match="limit=-1: a submission needs a limit above 0"):
        Examiner(isolation="auto", root=slow.root, limit=-1)
    with pytest.raises(ValueError, match="there are no katas"):
        Examiner(isolation="auto", root=tmp_path)


# ---- the reward ----


def a_report(state: State, stars: int, beside_par: float | None = None) -> Report:
    conditions = Conditions(1, Device("cpu", Mode.STRICT), ("v5e",))
    cost = Cost("v5e", 1, 1, 1, 1) if beside_par else None
    grade = Grade(ADD.id, 0, state, stars, cost=cost)
    return Report(
        *(ADD.id, 1, state, stars, None, (grade,), "", 0.0, conditions, ()), beside_par=beside_par
    )


@pytest.mark.parametrize(
    ("state", "stars", "beside_par", "reward"),
    [
        (State.TODO, 0, None, 0),
        (State.FAILED, 0, 1.0, 0),
        (State.FAILED, 1, None, 1 / 3),
        (State.PASSED, 1, None, 1 / 3),
        (State.PASSED, 2, None, 2 / 3),
        (State.PASSED, 2, 2.0, 2 / 3 + 1 / 6),
        (State.PASSED, 2, 1.0, 2 / 3),
        (State.PASSED, 2, 0.5, 2 / 3),
        (State.PASSED, 3, 1.0, 1),
        (State.PASSED, 3, 0.5, 1),
        (State.PASSED, 3, None, 1),
    ],
)
def test_reward(state: State, stars: int, beside_par: float | None, reward: float) -> None:
    assert a_report(state, stars, beside_par).reward() == pytest.approx(reward)


# ---- the page ----

PAGE = (ROOT / "docs/grading-many.md").read_text(encoding="utf-8")


def test_the_readme_leads_to_the_page() -> None:
    assert "(docs/grading-many.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_names_all_that_there_is() -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose))))
    fields = {field.name for field in dataclasses.fields(Report)}
    errors = {name for name in api.__all__ if issubclass(getattr(api, name), Exception)}
    parameters = set(inspect.signature(Examiner).parameters)
    a_grade = a_report(State.PASSED, 3, 1.0)
    assert not (fields | errors | parameters | set(verdict_of(a_grade))) - told


def test_the_code_of_the_page_runs(
    slow: Kata, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the unchanged stub, which no kernel is run for."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(slow.root)
    exec(code.replace('"require"', '"auto"'), {"source": ADD.stub_text()})
    assert capsys.readouterr().out == "State.TODO 0 0.0\n"


@pytest.mark.parametrize("post", [WorkerRole.RUNNING, WorkerRole.ATTEMPTING])
def test_a_verdict_is_an_accidents_where_a_process_was_killed(
    post: WorkerRole, examiner: Examiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody kills each process at this post that is asked something."""
    ask = Worker.ask

    def ask_and_kill(worker: Worker, question: Question) -> None:
        ask(worker, question)
        if examiner.pool and examiner.pool.pids.get(post) == worker.pid:
            os.kill(worker.pid, signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "ask", ask_and_kill)
        report = examiner.grade(ADD.id, WHOLE, SEED)
    assert report.state is State.FAILED
    assert report.accident
    assert verdict_of(report)["accident"]
    right = examiner.grade(ADD.id, WHOLE, SEED)
    assert (right.state, right.accident) == (State.PASSED, False)


@pytest.mark.parametrize("error", [ValueError("odd"), TypeError(), AssertionError(), KeyError(1)])
def test_a_failure_of_the_graders_is_the_verdict_on_one_submission(
    error: Exception, examiner: Examiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("grader.grading.grader.verdict", fail)
        report = examiner.grade(ADD.id, WHOLE, SEED)
    assert (report.state, report.stars, report.accident) == (State.FAILED, 0, True)
    assert report.finding
    assert report.finding.phrase == f"the grader failed ({type(error).__name__})"
    assert "in fail" in report.finding.full
    assert examiner.grade(ADD.id, WHOLE, SEED).state is State.PASSED


#: Texts that no file holds, that steer a terminal, or that end an XML file.
ODD = r"\ud800 \x00 \x1b[2J \r \x85 \u202e \ufffe"


@pytest.mark.parametrize(
    "text",
    [
        f"raise ValueError('{ODD}')",
        f"print('{ODD}'.encode('utf-8', 'replace').decode())\nraise ValueError",
        "def constant_add(x):\n    raise ValueError  # \x1b[2J \u202e",
        f"constant_add_kernel.__name__ = constant_add_kernel.__qualname__ = '{ODD}'",
        "def constant_add(x: '\x1b[2J'):\n    return x",
        f"import os\nos.write(2, b'{ODD}')\nos.kill(os.getpid(), 6)",
    ],
)
def test_all_texts_of_a_report_can_be_written_and_shown(text: str, examiner: Examiner) -> None:
    head, mark, test = WHOLE.partition("\ndef test_constant_add")
    report = examiner.grade(ADD.id, f"{head}\n{text}\n{mark}{test}", SEED)
    assert report.state is State.FAILED or "__name__" in text
    for one in every_text(report.as_dict()):
        assert printable(one) == one
        one.encode()


def every_text(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.items():
            yield from every_text(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from every_text(one)


def test_a_stub_with_more_than_python_can_compile_raises_nothing() -> None:
    """Some Python versions can't compile so many signs: RecursionError, in the driver."""
    kata = next(kata for kata in EVERY if kata.name == "revisit_bug")
    deep = Submission.of(kata, f"{kata.stub_text()}\nx = {'-' * 4000}1\n")
    assert deep.untouched() in (True, False)
    assert Submission.of(kata, kata.stub_text()).untouched()
