"""Passes that pytest confirms, one after another: it alone writes down that a kata is solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from grader.exercise.catalog import KATAS, Kata
from grader.model import Grade
from grader.record.ledger import read_ledger
from grader.report.solved import compared_in, solved_text
from grader.watching.events import Ended
from grader.watching.screen import Screen
from grader.watching.settings import Settings

#: What pytest's summary says of the record, and the watch repeats.
RECORD = ("recorded", "not recorded")


class Running(Protocol):
    """Runs one command at a time in the background; its end comes as an event."""

    def start(self, module: str, *arguments: str) -> int: ...
    def drop(self) -> None: ...


class Confirming:
    """The passes still to confirm, on hidden cases that pytest draws anew."""

    def __init__(self, settings: Settings, running: Running, screen: Screen) -> None:
        self._settings, self._running, self._screen = settings, running, screen
        self._command = 0  # the one that confirms a pass, 0 if none runs
        self._passed: list[Kata] = []  # to confirm, the first of them now
        self._first: dict[str, str] = {}  # of katas never solved before: how their cost compares

    def add(self, kata: Kata, grades: Sequence[Grade]) -> None:
        """Have this pass confirmed, as soon as those before it are."""
        self.forget(kata)
        self._passed.append(kata)
        if read_ledger(kata.root).last(kata.id) is None:
            self._first[kata.id] = compared_in(grades)
        self._screen.note("pytest confirms it, on hidden cases drawn anew …")
        if not self._command:
            self._begin()

    def forget(self, kata: Kata) -> None:
        """Confirm no earlier content of this kata; passes of others are confirmed all the same."""
        ids = [one.id for one in self._passed]
        if kata.id not in ids:
            return
        del self._passed[ids.index(kata.id)]
        if ids[0] == kata.id:
            self._running.drop()
            self._command = 0
            if self._passed:
                self._begin()

    def ended(self, event: Ended) -> bool:
        """Tell what came of a pass; False where the command that ended was another."""
        if event.command != self._command:
            return False
        self._command = 0
        self._tell(self._passed.pop(0), event)
        if self._passed:
            self._begin()
        return True

    def _begin(self) -> None:
        kata, chip, seconds = self._passed[0], self._settings.chip, self._settings.seconds
        limit = () if seconds is None else (f"--timeout={seconds:g}",)
        arguments = (f"{KATAS}/{kata.id}.py", "-q", "--no-header", f"--kata-chip={chip}", *limit)
        self._command = self._running.start("pytest", *arguments)

    def _tell(self, kata: Kata, event: Ended) -> None:
        if event.code:
            self._screen.note(f"{kata.name} is not confirmed; on other hidden cases:", "red")
            self._screen.text(event.said)
            return
        said = [line for line in event.said.splitlines() if line.startswith(RECORD)]
        self._screen.note(f"{kata.name} is confirmed", "green")
        self._screen.text("\n".join(said))
        self._tell_of_solved(kata)

    def _tell_of_solved(self, kata: Kata) -> None:
        """What its key has for afterwards, once, and once the ledger knows of the pass."""
        if kata.id in self._first and read_ledger(kata.root).last(kata.id):
            text = solved_text(kata, self._first.pop(kata.id))
            if text is not None:
                self._screen.show(text)
