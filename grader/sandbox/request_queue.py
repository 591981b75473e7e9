"""A queue of questions to one worker, asked ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.sandbox.messages import Answer, Question, Warm
from grader.sandbox.time_limits import asked_twice
from grader.sandbox.worker_pool import Stopped, Worker
from pallascope.model import Accident
from pallascope.tools import codec

#: For what is asked of a solution.
SECONDS = 60.0
#: Bytes of answers that one line keeps. Of a large kata and seed, a reference has 10 MB.
MOST_KEPT = 256 << 20


@dataclass(frozen=True, slots=True)
class _Pending:
    question: Question
    seconds: float | None
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class _Answered:
    question: Question
    answer: Answer | Accident
    size: int = 0  # in bytes, once it has been taken and is kept


class RequestQueue:
    """Has a worker begin ahead of time, and keeps what it answers until that is taken.

    `worker` gives the process that is there now, or raises Stopped. Where it dies over a question,
    the others go to its successor. `kept` is how many of the latest answers stay for whoever asks
    the same again, and `most` how many bytes they may have together. To `killed` goes each answer
    that is missing since its process was killed from outside.
    """

    def __init__(
        self,
        worker: Callable[[], Worker],
        kept: int = 0,
        most: int = MOST_KEPT,
        killed: list[Accident] | None = None,
    ) -> None:
        self._worker = worker
        self._killed = [] if killed is None else killed
        self._kept, self._most = kept, most
        self._asking: Worker | None = None  # of whom the pending questions were asked
        self._pending: list[_Pending] = []
        self._answered: list[_Answered] = []

    def ask(self, question: Question, seconds: float | None = SECONDS) -> None:
        """Have the worker begin, unless it was asked the same before.

        It has so many seconds (None: any number) from when it is waited for.
        """
        asked = (pending.question for pending in self._pending)
        if question in asked or self._place(question) is not None:
            return
        self._ask_again_if_new()
        self._send(_Pending(question, seconds))

    def answer(
        self,
        question: Question,
        seconds: float | None = SECONDS,
        keep: bool = True,
        twice: bool = True,
    ) -> Answer | Accident:
        """Ask, and wait for the answer. A case may be prepared and never graded: -x, for one.

        Without `keep`, nobody is going to ask the same again. After a hang or a crash, a new
        process is asked once more; not `twice` where a new process couldn't answer the question.
        """
        if not twice:
            return self._answer(question, seconds, keep)
        found = asked_twice(lambda limit: self._answer(question, limit, keep), seconds)
        self.note_killed(found)
        return found

    def note_killed(self, found: object) -> None:
        """Remember an answer that is missing because its process was killed from outside."""
        if isinstance(found, Accident) and found.killed:
            self._killed.append(found)

    def _answer(self, question: Question, seconds: float | None, keep: bool) -> Answer | Accident:
        self.ask(question, seconds)
        while (place := self._place(question)) is None:
            self._receive()
        found = self._answered.pop(place)
        if keep and self._kept and not isinstance(found.answer, Accident):
            size = found.size or len(codec.pack(found.answer))
            self._answered.append(_Answered(found.question, found.answer, size))
            self._forget()
        return found.answer

    def _forget(self) -> None:
        """Let go of the oldest of those that were taken, until the others may be kept."""
        kept = [each for each in self._answered if each.size]
        while len(kept) > self._kept or sum(each.size for each in kept) > self._most:
            self._answered.remove(kept.pop(0))

    def drop_pending(self) -> None:
        """Forget the questions that are not answered yet, and end the worker that has them."""
        if self._pending and self._asking:
            self._asking.kill()
        self._pending.clear()

    def warm(self, question: Warm) -> None:
        """Have a process begin with this that has not been asked anything; nobody asks for more."""
        if self._worker() is not self._asking:
            self._ask_again_if_new()
            self._send(_Pending(question, SECONDS, wanted=False))

    def _place(self, question: Question) -> int | None:
        places = (n for n, one in enumerate(self._answered) if one.question == question)
        return next(places, None)

    def _send(self, pending: _Pending) -> None:
        self._pending.append(pending)
        assert self._asking is not None
        self._asking.ask(pending.question)

    def _ask_again_if_new(self) -> None:
        try:
            worker = self._worker()
        except Stopped:
            self.drop_pending()
            raise
        if worker is self._asking:
            return
        self._asking = worker
        for pending in self._pending:
            worker.ask(pending.question)

    def _receive(self) -> None:
        """Take the answer to the question that was asked first."""
        self._ask_again_if_new()
        assert self._asking is not None
        first = self._pending.pop(0)
        answer = self._asking.answer(first.seconds)
        if first.wanted:
            self._answered.append(_Answered(first.question, answer))
