"""A crew on a cluster, whose nodes here are only said to be there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from grader.batch import cluster_executor
from grader.batch.cluster_executor import TRIES, ClusterCrew, Lost
from grader.batch.executor import ExecutorError, Outcome, SubmissionJob


@dataclass
class Said:
    """A cluster that answers calls in their order, as it was told to.

    `answers` says what becomes of a job on a hand, where that isn't a verdict; hands in `away` are
    not there yet.
    """

    size: int = 2
    answers: Callable[[int, SubmissionJob], Any] = lambda hand, job: None
    away: set[int] = field(default_factory=set)
    complaint: str = ""
    hands: int = 0
    graded: list[tuple[int, str]] = field(default_factory=list)
    most: int = 0  # calls to grade that were under way at once
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _calls: dict[int, tuple[int, SubmissionJob | None]] = field(default_factory=dict)

    def cores(self) -> int:
        return self.size

    def hired(self) -> int:
        self.hands += 1
        return self.hands

    def ready(self, hand: int) -> int:
        return self._called(hand, None)

    def grade(self, hand: int, job: SubmissionJob) -> int:
        self.graded.append((hand, job.key))
        return self._called(hand, job)

    def _called(self, hand: int, job: SubmissionJob | None) -> int:
        call = next(self._numbers)
        self._calls[call] = hand, job
        self.most = max(self.most, sum(job is not None for _, job in self._calls.values()))
        return call

    def done(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        there = [call for call in calls if self._calls[call][0] not in self.away]
        return there[:1]

    def answer(self, call: Any) -> Any:
        hand, job = self._calls.pop(call)
        if job is None:
            return self.complaint
        said = self.answers(hand, job)
        if isinstance(said, Exception):
            raise said
        return said or Outcome(job.key, job.kata, "{}")


def jobs(count: int, kata: str = "x") -> list[SubmissionJob]:
    return [SubmissionJob(f"{kata}{number}", kata, "text", 1) for number in range(count)]


def judged(
    cluster: Said, work: Sequence[SubmissionJob], count: int | None = None
) -> dict[str, str]:
    """What the crew says of each job: its error."""
    found = list(ClusterCrew(cluster, count).outcomes(work))
    assert len({outcome.key for outcome in found}) == len(found)
    return {outcome.key: outcome.error for outcome in found}


def test_each_job_once_and_no_more_under_way_than_there_are_cores() -> None:
    cluster = Said(size=3)
    assert judged(cluster, jobs(20)) == {f"x{number}": "" for number in range(20)}
    assert (cluster.hands, cluster.most) == (3, 3)
    assert len(cluster.graded) == 20


def test_a_cluster_that_grows_gets_more_hands() -> None:
    cluster = Said(size=1)
    work = ClusterCrew(cluster).outcomes(jobs(9))
    next(work)
    cluster.size = 4
    assert len(list(work)) == 8
    assert cluster.hands == 4


def test_as_many_hands_as_asked_for_but_no_more_than_jobs() -> None:
    cluster = Said(size=9)
    judged(cluster, jobs(5), count=2)
    assert cluster.hands == 2
    cluster = Said(size=9)
    judged(cluster, jobs(3))
    assert cluster.hands == 3


def test_nothing_waits_for_a_node_that_never_comes() -> None:
    cluster = Said(size=2, away={1})
    assert len(judged(cluster, jobs(4))) == 4
    assert {hand for hand, _ in cluster.graded} == {2}


def test_what_a_lost_hand_was_at_is_graded_again() -> None:
    losses = iter([Lost("ActorDiedError")])
    cluster = Said(answers=lambda hand, job: next(losses, None) if job.key == "x1" else None)
    assert judged(cluster, jobs(4)) == {f"x{number}": "" for number in range(4)}
    assert sorted(key for _, key in cluster.graded) == ["x0", "x1", "x1", "x2", "x3"]


def test_what_loses_every_node_is_told_and_the_others_graded() -> None:
    cluster = Said(answers=lambda hand, job: Lost("ActorDiedError") if job.key == "x1" else None)
    found = judged(cluster, jobs(3))
    assert found["x1"] == f"{TRIES} nodes were lost over it (ActorDiedError)"
    assert (found["x0"], found["x2"]) == ("", "")
    assert [key for _, key in cluster.graded].count("x1") == TRIES


def test_a_hand_stays_with_its_exercise() -> None:
    cluster = Said(size=2)
    judged(cluster, [*jobs(4, "x"), *jobs(4, "y")])
    by_hand = [{key[0] for hand, key in cluster.graded if hand == own} for own in (1, 2)]
    assert sorted(map(sorted, by_hand)) == [["x"], ["y"]]


def test_a_node_with_other_versions_ends_it() -> None:
    with pytest.raises(ExecutorError, match=r"has jax 0\.9"):
        judged(Said(complaint="the node far has jax 0.9 (here: 0.10.2)"), jobs(1))
    refused = Outcome("x0", "x", error="isolation is required", fatal=True)
    with pytest.raises(ExecutorError, match="isolation is required"):
        judged(Said(answers=lambda hand, job: refused), jobs(1))


def test_waiting_for_a_core_is_told_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [0.0], []
    monkeypatch.setattr(cluster_executor.time, "monotonic", lambda: now[0])
    cluster = Said(size=0, away={1})
    crew = ClusterCrew(cluster, tell=said.append)
    monkeypatch.setattr(
        cluster, "done", lambda calls, seconds: now.__setitem__(0, now[0] + seconds) or []
    )
    with pytest.raises(
        ExecutorError, match="no node of the cluster had a free core for 15 minutes"
    ):
        list(crew.outcomes(jobs(1)))
    assert set(said) == {"waiting for a free core of the cluster, for 1 workers"}
    assert 10 < len(said) < 16
