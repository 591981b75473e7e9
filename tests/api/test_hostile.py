"""Submissions that attack whoever grades them, under `isolation="require"`.

What a process may do by itself is asked in tests/sandbox/isolation, and forged verdicts in
tests/course/test_hostile.py. Here it is what lies around it: solutions, keys, the store, other
submissions, the driver, and the submission that comes next.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.api import Examiner, Report
from grader.exercise.catalog import katas
from grader.sandbox.isolation import Isolation, level
from grader.verdict import State
from tests.support.hostile_strangers import ENDS, LEAVES, READS, STAYS, WRITES, attacks
from tests.support.repositories import ROOT

ADD = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
WHOLE = ADD.solution.read_text(encoding="utf-8")
NOTHING = "attained: nothing"

pytestmark = pytest.mark.skipif(
    not level(Isolation.AUTO).isolated, reason="this machine offers no isolation"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the driver is at work, and its processes write."""
    return tmp_path_factory.mktemp("driver")


@pytest.fixture(scope="module")
def examiner(folder: Path) -> Iterator[Examiner]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(folder))
        patched.setenv("OPENAI_API_KEY", "HELD-BACK")
        patched.setenv("SOMETHING", "HELD-BACK")
        with Examiner(isolation="require", root=ROOT, seconds=20) as examiner:
            yield examiner
    assert not list(folder.glob("pallas-katas-*"))


@pytest.fixture
def places(folder: Path) -> dict[str, Path]:
    """What no submission may reach: real files of ours, and such as a driver has."""
    found = {
        "its solution": ADD.solution,
        "its key": ADD.key_path,
        "another's kata": ROOT / "katas/1_basics/kata_02_tiled_vector_add.py",
        "a test": Path(__file__),
        "the store": folder / "store.sqlite",
        "another submission": folder / "samples.jsonl",
    }
    for name in ("the store", "another submission"):
        found[name].write_text("HELD-BACK")
    return found


def graded(examiner: Examiner, text: str) -> Report:
    return examiner.grade(ADD.id, f"{WHOLE}\n{text}", seed=1)


@pytest.mark.parametrize("text", [READS, WRITES, STAYS], ids=["reads", "writes", "stays"])
def test_nothing_is_attained(
    text: str, examiner: Examiner, places: dict[str, Path], folder: Path
) -> None:
    before = {path: path.stat() for path in places.values()}
    report = graded(examiner, attacks(text, places))
    assert report.finding
    said = " ".join(report.finding.message.split())
    assert NOTHING in said, said
    assert {path: path.stat()[:8] for path in before} == {p: s[:8] for p, s in before.items()}
    assert not list(folder.glob("new"))


def test_nothing_stays_for_the_next(examiner: Examiner, folder: Path) -> None:
    """Twice the same: the second would find files, patches and modules of the first."""
    before = _processes(folder)
    text = attacks(LEAVES, {}).replace('raise RuntimeError("attained', 'print("attained')
    for _ in range(2):
        report = graded(examiner, text)
        assert report.state is State.PASSED, report.finding
    assert not list(folder.rglob("left"))
    assert len(_processes(folder) - before) <= 5  # the fork server and a worker in each role


def _processes(folder: Path) -> set[str]:
    """Those of the Examiner that works in a folder, whoever started them."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if bytes(folder) in (entry / "cmdline").read_bytes():
                found.add(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", ENDS)
def test_an_end_is_no_verdict(how: str, examiner: Examiner) -> None:
    """As the launch is called, when it is about to be traced."""
    inner = "".join(f"    {line}\n" for line in ENDS[how].splitlines())
    report = graded(examiner, f"def constant_add(x):\n{inner}")
    assert (report.state, report.stars, report.reward()) == (State.FAILED, 0, 0)
    assert report.finding
    assert not re.search("HELD|Traceback of the grader", report.finding.message)


def test_afterwards_an_honest_one_is_graded(examiner: Examiner) -> None:
    assert graded(examiner, "").state is State.PASSED
    assert os.environ.get("SOMETHING") == "HELD-BACK"
