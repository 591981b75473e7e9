"""The same verdicts at every level of isolation, whatever the machine's kernel refuses or lacks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from grader.exercise.cases import draw
from grader.grading.grader import Grader
from grader.sandbox import isolation
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import WorkerQueues
from grader.sandbox.launcher import Launcher
from grader.sandbox.worker_pool import WorkerPool
from grader.verdict import Device, Grade, State
from pallascope.model import Mode
from tests.support.repositories import Repository

HERE = isolation.level()
pytestmark = pytest.mark.skipif(not HERE.isolated, reason=str(HERE))

CPU = Device("cpu", Mode.INTERPRET)  # the plain interpreter is the quickest

#: Python imports this before anything else, in the processes that a launcher starts.
PATCHES = """
import errno
from grader.sandbox.isolation import landlock, seccomp

def refuse(*_, **__):
    raise OSError(errno.ENOSYS, "refused for a test")
"""
LANDLOCK = {f"landlock-{v}": f"landlock.version = lambda _: {v}" for v in (1, 2, 3, 5, 7)}
LEVELS = {
    **{name: text for name, text in LANDLOCK.items() if int(name[9:]) <= HERE.landlock_abi},
    "no-landlock": "landlock.version = refuse",
    "no-seccomp": "seccomp.probe = refuse",
    "neither": "landlock.version = seccomp.probe = refuse",
    "landlock-fails-later": "landlock.restrict = refuse",
    "seccomp-fails-later": "seccomp.install = refuse",
    "both-fail-later": "landlock.restrict = seccomp.install = refuse",
}

RIGHT = f"print('shape', x_ref.shape)\n{Repository.BODY}"
WRONG = "print('shape', x_ref.shape)\no_ref[...] = x_ref[...] * 3"
LEAVES = "import os\nos._exit(3)"


@pytest.fixture(params=LEVELS.values(), ids=list(LEVELS))
def grader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Grader]:
    folder = tmp_path_factory.mktemp("patches")
    (folder / "sitecustomize.py").write_text(f"{PATCHES}{request.param}\n")
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    pool = WorkerPool(CPU, Launcher(CPU, {**os.environ, "PYTHONPATH": path}))
    yield Grader(WorkerClient(WorkerQueues(pool)))
    pool.close()


def test_each_level_gives_the_same_verdicts(grader: Grader, repository: Repository) -> None:
    """Of what a kata prints, each case shows its own."""
    kata = repository.add("double")

    def graded(body: str, count: int) -> list[Grade]:
        repository.solve(kata, body)
        return [grader.grade(kata, case, 60) for case in draw(kata.id, kata.key, 1)[:count]]

    right = graded(RIGHT, 2)
    assert [grade.state for grade in right] == [State.PASSED] * 2, right
    assert [grade.printed.count("shape") for grade in right] == [1, 1]

    (wrong,) = graded(WRONG, 1)
    assert wrong.finding
    assert "off by the same factor" in wrong.finding.phrase

    (left,) = graded(LEAVES, 1)
    assert left.finding
    assert left.finding.phrase == "left the process (exit code 3)"
    assert "It wrote nothing to stderr" in left.finding.message
