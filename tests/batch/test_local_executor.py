"""Workers that grade, die and are replaced. What they get is todo: that needs no kernel."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from grader.batch.executor import ExecutorError, LocalExecutor, Setup, SubmissionJob
from grader.exercise.catalog import Kata
from tests.support.repositories import Repository


@pytest.fixture
def kata(repository: Repository) -> Kata:
    return repository.add("double")


def jobs(kata: Kata, count: int) -> list[SubmissionJob]:
    """Each stands for a submission of its own, whatever it holds."""
    return [
        SubmissionJob(str(number), kata.id, kata.stub_text(), number) for number in range(count)
    ]


def setup(kata: Kata, isolation: str = "off") -> Setup:
    return Setup(str(kata.root), ("v5e",), isolation)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_each_is_judged_once_and_nobody_stays(kata: Kata, repository: Repository) -> None:
    """One whose answer key is broken has no verdict; the others do."""
    other = repository.add("row_sum", number=2)
    other.key_path.write_text("broken")
    with LocalExecutor(setup(kata), 2) as executor:
        found = list(
            executor.outcomes([SubmissionJob("broken", other.id, "text", 1), *jobs(kata, 4)])
        )
        pids = executor.pids
        assert len(pids) == 2
    errors = {outcome.key: outcome.error for outcome in found}
    verdicts = [json.loads(outcome.verdict) for outcome in found if outcome.key != "broken"]
    assert len(found) == len(errors) == 5
    assert "KeyProblem" in errors.pop("broken")
    assert errors == dict.fromkeys("0123", "")
    assert {verdict["state"] for verdict in verdicts} == {"todo"}
    assert {verdict["seed"] for verdict in verdicts} == set(range(4))
    assert all(map(gone, pids))


def test_a_worker_that_dies_is_replaced_and_its_job_tried_again(kata: Kata) -> None:
    with LocalExecutor(setup(kata), 1) as executor:
        found = []
        for outcome in executor.outcomes(jobs(kata, 3)):
            found.append(outcome)
            if len(found) == 1:
                (pid,) = executor.pids
                os.kill(pid, signal.SIGKILL)
    assert [outcome.error for outcome in found] == ["", "", ""]
    assert sorted(outcome.key for outcome in found) == list("012")


def test_what_kills_every_worker_is_told(kata: Kata) -> None:
    """Seeds are whole numbers: of another a worker makes nothing."""
    bad = SubmissionJob("bad", kata.id, kata.stub_text(), "seed")  # type: ignore[arg-type]
    with LocalExecutor(setup(kata), 1) as executor:
        found = {outcome.key: outcome.error for outcome in executor.outcomes([bad, *jobs(kata, 1)])}
    assert found == {"bad": "2 processes died while grading it", "0": ""}


def test_where_nothing_can_be_graded_it_ends_at_once(kata: Kata, tmp_path: Path) -> None:
    nowhere = Setup(str(tmp_path / "nowhere"), ("v5e",), "off")
    with (
        pytest.raises(ExecutorError, match="there are no katas"),
        LocalExecutor(nowhere, 1) as executor,
    ):
        list(executor.outcomes(jobs(kata, 1)))


def test_workers_end_with_their_driver(kata: Kata) -> None:
    with LocalExecutor(setup(kata), 1) as executor:
        list(executor.outcomes(jobs(kata, 1)))
        (pid,) = executor.pids
        executor._workers[0].child.connection.close()  # as the end of the driver's process would
        until = time.monotonic() + 30
        while not _ended(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert _ended(pid)


def _ended(pid: int) -> bool:
    """Whether it has ended, though nobody has waited for it yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
