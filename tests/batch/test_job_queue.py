"""Jobs that wait, and who gets which."""

from __future__ import annotations

from grader.batch.executor import JobQueue, SubmissionJob


def job(kata: str, key: str) -> SubmissionJob:
    return SubmissionJob(key, kata, "source", 1)


def test_a_worker_stays_with_its_exercise_and_then_takes_the_longest() -> None:
    waiting = JobQueue([job("a", "1"), job("b", "2"), job("b", "3"), job("c", "4"), job("c", "5")])
    waiting.add(job("c", "6"))
    given = []
    kata = "a"
    while waiting:
        given.append(waiting.next_for(kata))
        kata = given[-1].kata
    assert "".join(one.kata for one in given) == "acccbb"
    assert sorted(one.key for one in given) == list("123456")
