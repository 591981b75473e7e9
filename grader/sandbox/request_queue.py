"""A queue of questions to one worker: sent ahead of time, time limits, a cache of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.sandbox.messages import Answer, Question
from grader.sandbox.time_limits import asked_twice
from grader.sandbox.worker_pool import Stopped, Worker
from pallascope.model import Accident
from pallascope.runs.questions import Warm
from pallascope.tools import codec

#: For questions about a solution.
SECONDS = 60.0
#: Bytes of answers that one queue caches. The reference of a large kata has 10 MB.
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
    size: int = 0  # in bytes, once it has been taken and is cached


class RequestQueue:
    """Sends questions to a worker ahead of time, and keeps each answer until it is taken.

    `worker` returns the current process, or raises Stopped. If the process dies over a question,
    the other questions go to its successor. The queue caches the `kept` latest answers, with at
    most `most` bytes together. Answers that are missing because their process was killed from
    outside are appended to `killed`.
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
        self._asking: Worker | None = None  # the worker that has the pending questions
        self._pending: list[_Pending] = []
        self._answered: list[_Answered] = []

    def ask(self, question: Question, seconds: float | None = SECONDS) -> None:
        """Send a question, unless the same was sent before.

        The limit in seconds (None: no limit) starts when somebody waits for the answer.
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
        """Send a question, unless it was sent ahead, and wait for the answer.

        With `keep`, the answer may be cached. After a hang or a crash, a new process gets the
        question once more, unless `twice` is off because a new process couldn't answer it.
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
        """Drop the oldest cached answers until the others are within the limits."""
        kept = [each for each in self._answered if each.size]
        while len(kept) > self._kept or sum(each.size for each in kept) > self._most:
            self._answered.remove(kept.pop(0))

    def drop_pending(self) -> None:
        """Forget the open questions, and end the worker that has them."""
        if self._pending and self._asking:
            self._asking.kill()
        self._pending.clear()

    def warm(self, question: Warm) -> None:
        """Warm up a process that has had no question yet. Its answer is dropped."""
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
        """Wait for the answer to the oldest open question, and keep it if it is wanted."""
        self._ask_again_if_new()
        assert self._asking is not None
        first = self._pending.pop(0)
        answer = self._asking.answer(first.seconds)
        if first.wanted:
            self._answered.append(_Answered(first.question, answer))
