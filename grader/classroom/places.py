"""Where a student stands at each kata: by the files and the ledger of the clone alone."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.classroom.clones import Clone, Unreadable
from grader.exercise.catalog import KATAS, Kata
from grader.exercise.repository import is_stub
from grader.record.ledger import LEDGER, Ledger, parsed_ledger
from grader.record.status import FileState
from grader.tools.git import blob_id


@dataclass(frozen=True, slots=True)
class Place:
    """One kata of one student. `stars` are what the ledger says of this very content, else 0."""

    kata: str
    state: FileState
    stars: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """One student: a place for each kata of the course, in its order.

    `latest` is the day of the latest pass in the ledger; `problems` is what could not be read.
    """

    clone: Clone
    places: tuple[Place, ...]
    latest: datetime.date | None = None
    problems: tuple[str, ...] = ()

    @property
    def student(self) -> str:
        return self.clone.student

    @property
    def solved(self) -> int:
        """How many katas hold what the ledger has a pass of."""
        return sum(place.state is FileState.SOLVED for place in self.places)

    @property
    def stars(self) -> int:
        """Of all katas together."""
        return sum(place.stars for place in self.places)


class Course:
    """The katas that a class is looked at for, those of the teacher's clone."""

    def __init__(self, katas: Iterable[Kata]) -> None:
        self.katas: Sequence[Kata] = tuple(katas)
        self._stubs = {kata.id: blob_id(kata.shipped().encode()) for kata in self.katas}

    def standing(self, clone: Clone) -> Standing:
        """Where a student stands. What can't be read is among the problems, the rest is there."""
        problems: list[str] = []
        ledger = _ledger(clone, problems)
        places = tuple(self._place(clone, kata, ledger, problems) for kata in self.katas)
        latest = max((one.date for one in ledger.passes), default=None)
        return Standing(clone, places, latest, tuple(problems))

    def _place(self, clone: Clone, kata: Kata, ledger: Ledger, problems: list[str]) -> Place:
        content = _read(clone, file_of(kata), problems)
        if content is None:
            return Place(kata.id, FileState.GONE)
        blob = blob_id(content)
        if best := ledger.best(kata.id, blob):
            return Place(kata.id, FileState.SOLVED, best.stars)
        if blob == self._stubs[kata.id] or is_stub(content, kata):
            return Place(kata.id, FileState.TODO)
        known = ledger.last(kata.id)
        return Place(kata.id, FileState.CHANGED if known else FileState.EDITED)


def file_of(kata: Kata) -> str:
    """The path of a kata's file within any clone."""
    return f"{KATAS}/{kata.id}.py"


def _ledger(clone: Clone, problems: list[str]) -> Ledger:
    content = _read(clone, LEDGER, problems)
    found = parsed_ledger((content or b"").decode("utf-8", "replace"))
    problems += found.warnings
    return found


def _read(clone: Clone, path: str, problems: list[str]) -> bytes | None:
    try:
        return clone.read(path)
    except Unreadable as error:
        problems.append(str(error))
        return None
