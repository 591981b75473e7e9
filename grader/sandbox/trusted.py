"""The trusted worker's questions and answers, in whatever order they are wanted."""

from __future__ import annotations

from grader.model import Accident
from grader.sandbox.bench import Bench
from grader.sandbox.messages import Answer, Ask

#: For a solution's spec, and for compiling what the solution launches.
SECONDS = 60.0


class Trusted:
    """Asks the trusted worker ahead of time and keeps what it answers until that is taken.

    `kept` is how many of the latest answers stay for whoever asks the same again.
    """

    def __init__(self, bench: Bench, kept: int = 0) -> None:
        self._bench = bench
        self._kept = kept
        self._asked: list[Ask] = []
        self._answered: list[tuple[Ask, Answer]] = []

    def ask(self, ask: Ask) -> None:
        """Have the worker begin, unless it was asked the same before."""
        if ask in self._asked or self._place(ask) is not None:
            return
        if ask.inputs:
            # Two large messages in opposite directions would wait for each other for ever.
            while self._asked and not self._receive():
                pass
        self._bench.trusted().ask(ask)
        self._asked.append(ask)

    def answer(self, ask: Ask) -> Answer | Accident:
        """Ask, and wait for the answer. Answers to what was asked before are kept.

        A case may be prepared and then never graded: -x, or a test that was deselected late.
        """
        self.ask(ask)
        while ask in self._asked:
            if accident := self._receive():
                return accident
        place = self._place(ask)
        assert place is not None
        asked, answer = self._answered.pop(place)
        if self._kept:
            self._answered = [*self._answered, (asked, answer)][-self._kept :]
        return answer

    def forget(self) -> None:
        """Keep nothing of what was answered: the solutions have changed."""
        self._answered.clear()

    def _place(self, ask: Ask) -> int | None:
        places = (n for n, (asked, _) in enumerate(self._answered) if asked == ask)
        return next(places, None)

    def _receive(self) -> Accident | None:
        """Take the answer to the question that was asked first; after an accident there is none."""
        answer = self._bench.trusted().answer(SECONDS)
        if isinstance(answer, Accident):
            self._asked.clear()
            return answer
        self._answered.append((self._asked.pop(0), answer))
        return None
