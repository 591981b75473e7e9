"""RayExecutor on a Ray that only answers: what is graded again, and when it gives up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from grader.batch import ray_cluster
from grader.batch.executor import ExecutorError, Outcome, Setup, SubmissionJob
from grader.batch.ray_cluster import SPARE_SECONDS, TRIES, RayExecutor

ERRORS = ("RayTaskError", "RuntimeEnvSetupError", "ActorUnschedulableError", "ActorDiedError")


class RayError(Exception):
    pass


EXCEPTIONS = SimpleNamespace(
    RayError=RayError, **{name: type(name, (RayError,), {}) for name in ERRORS}
)


@dataclass
class Ray:
    """The functions of `ray` that the executor calls. Calls are answered in their order.

    `answers` gives the answer or the exception where a job on an actor brings no verdict; actors
    in `away` have no node, and those in `silent` never answer `grade`.
    """

    size: int = 2
    answers: Callable[[int, SubmissionJob], Any] = lambda actor, job: None
    away: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    complaint: str = ""
    actors: int = 0
    graded: list[tuple[int, str]] = field(default_factory=list)
    most: int = 0  # calls to grade that were under way at once
    exceptions: ClassVar[Any] = EXCEPTIONS
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _calls: dict[int, tuple[int, SubmissionJob | None]] = field(default_factory=dict)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.size)}

    def remote(self, **options: Any) -> Any:
        assert options == {"num_cpus": 1, "max_restarts": -1, "max_task_retries": -1}
        return lambda _node: SimpleNamespace(remote=self._new_actor)

    def _new_actor(self, *_: Any) -> Any:
        self.actors += 1
        number = self.actors
        return SimpleNamespace(
            number=number,
            ready=SimpleNamespace(remote=lambda: self._called(number, None)),
            grade=SimpleNamespace(options=lambda **retries: self._grading(number, retries)),
        )

    def _grading(self, actor: int, retries: dict[str, int]) -> Any:
        assert retries == {"max_task_retries": 0}
        return SimpleNamespace(remote=lambda job: self._called(actor, job))

    def _called(self, actor: int, job: SubmissionJob | None) -> int:
        if job:
            self.graded.append((actor, job.key))
        call = next(self._numbers)
        self._calls[call] = actor, job
        self.most = max(self.most, sum(job is not None for _, job in self._calls.values()))
        return call

    def wait(self, calls: Sequence[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        there = [call for call in calls if self._answers(*self._calls[call])]
        return there[:1], []

    def _answers(self, actor: int, job: SubmissionJob | None) -> bool:
        return actor not in self.away and not (job and actor in self.silent)

    def get(self, call: Any) -> Any:
        actor, job = self._calls.pop(call)
        if job is None:
            return self.complaint
        found = self.answers(actor, job)
        if isinstance(found, Exception):
            raise found
        return found or Outcome(job.key, job.kata, "{}")

    def kill(self, actor: Any, no_restart: bool) -> None:
        assert not no_restart
        raise AssertionError(f"{actor.number} is killed")


SETUP = Setup("/root", ("v5e",), "off", limit=10)


def executor(
    ray: Ray, count: int | None = None, tell: Callable[[str], None] = print
) -> RayExecutor:
    return RayExecutor(ray, SETUP, count, tell)


def jobs(count: int, kata: str = "x") -> list[SubmissionJob]:
    return [SubmissionJob(f"{kata}{number}", kata, "text", 1) for number in range(count)]


def judged(ray: Ray, work: Sequence[SubmissionJob], count: int | None = None) -> dict[str, str]:
    """The error of each job; "" where there is none."""
    found = list(executor(ray, count).outcomes(work))
    assert len({outcome.key for outcome in found}) == len(found)
    return {outcome.key: outcome.error for outcome in found}


def test_each_job_once_and_no_more_under_way_than_there_are_cores() -> None:
    ray = Ray(size=3)
    assert judged(ray, jobs(20)) == {f"x{number}": "" for number in range(20)}
    assert (ray.actors, ray.most) == (3, 3)
    assert len(ray.graded) == 20


def test_a_cluster_that_grows_gets_more_actors() -> None:
    ray = Ray(size=1)
    work = executor(ray).outcomes(jobs(9))
    next(work)
    ray.size = 4
    assert len(list(work)) == 8
    assert ray.actors == 4


def test_as_many_actors_as_asked_for_but_no_more_than_jobs() -> None:
    ray = Ray(size=9)
    judged(ray, jobs(5), count=2)
    assert ray.actors == 2
    ray = Ray(size=9)
    judged(ray, jobs(3))
    assert ray.actors == 3


def test_nothing_waits_for_a_node_that_never_comes() -> None:
    ray = Ray(size=2, away={1})
    assert len(judged(ray, jobs(4))) == 4
    assert {actor for actor, _ in ray.graded} == {2}


def test_a_job_whose_actor_died_is_graded_again() -> None:
    losses = iter([EXCEPTIONS.ActorDiedError()])
    ray = Ray(answers=lambda actor, job: next(losses, None) if job.key == "x1" else None)
    assert judged(ray, jobs(4)) == {f"x{number}": "" for number in range(4)}
    assert sorted(key for _, key in ray.graded) == ["x0", "x1", "x1", "x2", "x3"]


def test_a_job_that_loses_every_node_is_an_error_and_the_others_are_graded() -> None:
    died = EXCEPTIONS.ActorDiedError()
    ray = Ray(answers=lambda actor, job: died if job.key == "x1" else None)
    found = judged(ray, jobs(3))
    assert found["x1"] == f"{TRIES} nodes were lost while grading it (ActorDiedError)"
    assert (found["x0"], found["x2"]) == ("", "")
    assert [key for _, key in ray.graded].count("x1") == TRIES


def test_an_actor_stays_with_its_exercise() -> None:
    ray = Ray(size=2)
    judged(ray, [*jobs(4, "x"), *jobs(4, "y")])
    by_actor = [{key[0] for actor, key in ray.graded if actor == own} for own in (1, 2)]
    assert sorted(map(sorted, by_actor)) == [["x"], ["y"]]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("RayTaskError", "a node can't grade: No module named 'rich'"),
        ("RuntimeEnvSetupError", "a node can't take the repository: No module named 'rich'"),
        ("ActorUnschedulableError", "No module named 'rich'"),
    ],
)
def test_what_no_actor_could_grade_ends_it(error: str, says: str) -> None:
    raised = getattr(EXCEPTIONS, error)("Traceback\nNo module named 'rich'\n")
    with pytest.raises(ExecutorError, match=says):
        judged(Ray(answers=lambda actor, job: raised), jobs(1))


def test_a_node_with_other_versions_ends_it() -> None:
    with pytest.raises(ExecutorError, match=r"has jax 0\.9"):
        judged(Ray(complaint="the node far has jax 0.9 (here: 0.10.2)"), jobs(1))
    refused = Outcome("x0", "x", error="isolation is required", fatal=True)
    with pytest.raises(ExecutorError, match="isolation is required"):
        judged(Ray(answers=lambda actor, job: refused), jobs(1))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which each look at it moves on by four seconds."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 4
        return now[0]

    monkeypatch.setattr(ray_cluster.time, "monotonic", monotonic)
    return now


def test_an_actor_that_does_not_answer_is_restarted(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Ray(size=1, silent={1})
    monkeypatch.setattr(ray, "kill", lambda actor, no_restart: ray.silent.clear())
    found = judged(ray, jobs(2))
    assert sorted(found.values()) == ["", f"no answer after {SETUP.limit + SPARE_SECONDS:g} s"]


def test_waiting_for_a_core_is_said_and_has_an_end(clock: list[float]) -> None:
    said: list[str] = []
    ray = Ray(size=0, away={1})
    with pytest.raises(
        ExecutorError, match="no node of the cluster had a free core for 15 minutes"
    ):
        list(executor(ray, tell=said.append).outcomes(jobs(1)))
    assert set(said) == {"waiting for a free core of the cluster, for 1 workers"}
    assert 10 < len(said) < 16
