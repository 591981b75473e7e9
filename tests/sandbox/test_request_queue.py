"""Questions to one role: in any order, asked ahead, asked again of whoever succeeds the dead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import katas
from grader.sandbox.launch_client import LaunchClient, WorkerQueues
from grader.sandbox.messages import Answer, Question, Shares
from grader.sandbox.request_queue import RequestQueue
from grader.sandbox.worker_pool import Stopped, Worker
from pallascope.model import Accident, Reference
from pallascope.runs.questions import Warm, Warmed
from pallascope.tools import codec
from tests.support.repositories import ROOT

DIED = Accident("crashed", "it crashed", crashed=True)
STUCK = Accident("stuck", "it hangs", stuck=True)
KEPT_WAITING = Accident("waited", "the machine is busy", stuck=True, kept_waiting=True)
NO_REFERENCE = Reference((), (), {}, (), (), (), 0)


def question(name: str) -> Warm:
    return Warm(None, (name,))


class WorkerRole:
    """Workers one after another, each with its own list of what it was asked."""

    def __init__(self, answer: Callable[[Question], Answer | Accident]) -> None:
        self.answer_with = answer
        self.workers: list[Any] = []

    def __call__(self) -> Worker:
        if not self.workers or self.workers[-1].dead:
            self.workers.append(FakeWorker(self.answer_with))
        return cast(Worker, self.workers[-1])

    @property
    def asked(self) -> list[list[str]]:
        return [[q.chips[0] for q in worker.asked] for worker in self.workers]


class FakeWorker:
    def __init__(self, answer: Callable[[Question], Answer | Accident]) -> None:
        self._answer = answer
        self.asked: list[Question] = []
        self._waiting: list[Question] = []
        self.seconds: list[float | None] = []
        self.dead = False

    def ask(self, asked: Question) -> None:
        self.asked.append(asked)
        self._waiting.append(asked)

    def kill(self) -> None:
        self.dead = True

    def answer(self, seconds: float | None) -> Answer | Accident:
        self.seconds.append(seconds)
        answer = self._answer(self._waiting.pop(0))
        self.dead = isinstance(answer, Accident)
        return answer


def named(asked: Question) -> Answer:
    """An answer that tells of which question."""
    assert isinstance(asked, Warm)
    return Shares() if asked.chips == ("shares",) else Warmed()


def test_answers_come_in_whatever_order_they_are_wanted() -> None:
    role = WorkerRole(named)
    queue = RequestQueue(role)
    queue.ask(question("a"))
    queue.ask(question("shares"))
    assert queue.answer(question("shares")) == Shares()
    assert queue.answer(question("a")) == Warmed()
    assert role.asked == [["a", "shares"]]


def test_what_was_asked_is_not_asked_twice() -> None:
    role = WorkerRole(named)
    queue = RequestQueue(role)
    queue.ask(question("a"))
    queue.ask(question("a"))
    queue.answer(question("a"))
    assert role.asked == [["a"]]
    queue.answer(question("a"))  # its answer was taken
    assert role.asked == [["a", "a"]]


def test_kept_answers_stay_for_whoever_asks_again() -> None:
    role = WorkerRole(named)
    queue = RequestQueue(role, kept=1)
    queue.answer(question("a"))
    queue.answer(question("a"))
    assert role.asked == [["a"]]
    queue.answer(question("b"))
    queue.answer(question("a"))
    assert role.asked == [["a", "b", "a"]]


def test_kept_answers_have_so_many_bytes_together() -> None:
    """The oldest goes, and one that nobody has taken stays."""
    size = len(codec.pack(Warmed()))
    role = WorkerRole(named)
    queue = RequestQueue(role, kept=9, most=2 * size)
    queue.ask(question("ahead"))
    for name in "abcbca":
        queue.answer(question(name))
    queue.answer(question("ahead"))
    assert role.asked == [["ahead", *"abca"]]


def test_a_death_is_that_of_the_question_that_was_asked_first() -> None:
    role = WorkerRole(lambda asked: DIED if asked == question("deadly") else named(asked))
    queue = RequestQueue(role)
    queue.ask(question("deadly"))
    queue.ask(question("b"))
    assert queue.answer(question("b")) == Warmed()
    assert queue.answer(question("deadly")) == DIED
    assert role.asked == [["deadly", "b"], ["b", "deadly"]]


def test_dropped_questions_are_not_asked_again() -> None:
    """The worker that still has them is ended, so that its answers meet no later question."""
    role = WorkerRole(named)
    queue = RequestQueue(role)
    queue.ask(question("dropped"))
    queue.drop_pending()
    queue.drop_pending()
    assert queue.answer(question("next")) == Warmed()
    assert role.asked == [["dropped"], ["next"]]


def test_an_accident_is_not_kept() -> None:
    answers = iter([DIED, DIED, Warmed()])
    queue = RequestQueue(WorkerRole(lambda _: next(answers)), kept=5)
    assert queue.answer(question("a")) == DIED
    assert queue.answer(question("a")) == Warmed()


@pytest.mark.parametrize("accident", [DIED, STUCK, KEPT_WAITING], ids=lambda a: a.phrase)
def test_an_accident_is_no_answer_before_it_came_twice(accident: Accident) -> None:
    answers = iter([accident, Warmed()])
    role = WorkerRole(lambda _: next(answers))
    assert RequestQueue(role).answer(question("a")) == Warmed()
    assert role.asked == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("first", "second", "seconds", "told"),
    [
        (STUCK, STUCK, 5, STUCK),
        (KEPT_WAITING, STUCK, 30, KEPT_WAITING),
        (DIED, STUCK, 30, STUCK),
        (STUCK, DIED, 5, DIED),
    ],
)
def test_who_hangs_has_less_time_the_second_time(
    first: Accident, second: Accident, seconds: float, told: Accident
) -> None:
    """Unless the machine kept it waiting, or it has had no time. The first limit is told."""
    answers = iter([first, second])
    role = WorkerRole(lambda _: next(answers))
    assert RequestQueue(role).answer(question("a"), 30) == told
    assert [worker.seconds for worker in role.workers] == [[30], [seconds]]


def test_who_leaves_is_not_asked_again() -> None:
    left = Accident("left the process (exit code 3)", "")
    role = WorkerRole(lambda _: left)
    assert RequestQueue(role).answer(question("a")) == left
    assert role.asked == [["a"]]


def test_each_question_has_its_own_seconds() -> None:
    role = WorkerRole(named)
    queue = RequestQueue(role)
    queue.ask(question("a"), 7)
    queue.answer(question("b"), 9)
    assert role.workers[0].seconds == [7, 9]


def test_a_queue_that_is_stopped_forgets_what_is_pending() -> None:
    role = WorkerRole(named)
    stopped = False

    def worker() -> Worker:
        if stopped:
            raise Stopped
        return role()

    queue = RequestQueue(worker)
    queue.ask(question("old"))
    stopped = True
    with pytest.raises(Stopped):
        queue.answer(question("old"))
    stopped, role.workers[-1].dead = False, True
    queue.answer(question("new"))
    assert role.asked == [["old"], ["new"]]


def test_only_a_process_that_was_asked_nothing_is_warmed() -> None:
    role = WorkerRole(named)
    queue = RequestQueue(role)
    queue.warm(question("warm"))
    queue.warm(question("warm"))
    assert role.asked == [["warm"]]
    queue.answer(question("a"))
    queue.warm(question("warm"))
    assert role.asked == [["warm", "a"]]


class WaitingQueues:
    """The queues of one thread: its answers are accidents, which come once `may_answer` is set."""

    def __init__(self) -> None:
        self.pool = SimpleNamespace(attempt=lambda _: None)
        self.attempting = SimpleNamespace(answer=self._answer)
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def _answer(self, *_: object) -> Accident:
        self.asked.set()
        assert self.may_answer.wait(60)
        return DIED


def test_a_launch_that_hangs_keeps_no_other_thread_waiting() -> None:
    kata = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
    case = hidden_cases(kata, 1)[0]
    queues = WaitingQueues(), WaitingQueues()
    hanging, other = (
        LaunchClient(cast(WorkerQueues, one), kata, case, NO_REFERENCE, ("v5e",), None)
        for one in queues
    )
    queues[1].may_answer.set()
    with ThreadPoolExecutor(2) as threads:
        answer = threads.submit(lambda: hanging.traced)
        assert queues[0].asked.wait(60)
        assert threads.submit(lambda: other.traced).result(60) == DIED
        assert not answer.done()
        queues[0].may_answer.set()
        assert answer.result(60) == DIED
