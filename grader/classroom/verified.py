"""What the files of a class earn when they are graded anew, beside what the ledgers claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.batch.samples import TASK, Sample
from grader.classroom.clones import Unreadable
from grader.classroom.places import Standing, file_of
from grader.exercise.catalog import Kata
from grader.record.status import FileState

STUDENT, CLAIMED = "student", "claimed"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_GRADED = (FileState.SOLVED, FileState.CHANGED, FileState.EDITED)


@dataclass(frozen=True, slots=True)
class Earned:
    """One file: the stars that the ledger claims for it, and those that it earned.

    `check` and `phrase` are those of its finding, "" where there is nothing to say. `short` says
    what could not be asked on this machine: fewer stars are no fault of the file's then.
    """

    student: str
    kata: str
    claimed: int
    stars: int
    check: str = ""
    phrase: str = ""
    short: bool = False

    @property
    def overclaimed(self) -> bool:
        """Whether the ledger has more than the file earns."""
        return self.claimed > self.stars and not self.short

    @property
    def unrecorded(self) -> bool:
        """Whether the file earns more than the ledger has."""
        return self.stars > self.claimed


@dataclass(frozen=True, slots=True)
class Trouble:
    """One finding that several files of a kata may have, however their numbers differ."""

    kata: str
    check: str
    phrase: str
    students: tuple[str, ...]


def samples(standings: Iterable[Standing], katas: Mapping[str, Kata]) -> Iterator[Sample]:
    """A sample for each file that is there and no stub, numbered from 1 as lines are."""
    number = 0
    for standing in standings:
        for place in standing.places:
            if place.state not in _GRADED:
                continue
            number += 1
            row = {STUDENT: standing.student, TASK: place.kata, CLAIMED: place.stars}
            yield _sample(number, row, standing, katas[place.kata])


def _sample(number: int, row: dict[str, Any], standing: Standing, kata: Kata) -> Sample:
    try:
        content = standing.clone.read(file_of(kata))
        if content is None:
            return Sample(number, row, kata.id, None, "the file is gone")
        return Sample(number, row, kata.id, content.decode("utf-8"))
    except Unreadable as error:
        return Sample(number, row, kata.id, None, str(error))
    except UnicodeDecodeError as error:
        return Sample(number, row, kata.id, None, f"the file is no UTF-8: {error.reason}")


def earned(rows: Iterable[Mapping[str, Any]]) -> list[Earned]:
    """What came of the samples, from the rows of their results."""
    return [_earned(row) for row in rows]


def _earned(row: Mapping[str, Any]) -> Earned:
    finding = row.get("finding") or {}
    return Earned(
        row[STUDENT],
        row[TASK],
        row[CLAIMED],
        row["stars"],
        finding.get("check", ""),
        finding.get("phrase", ""),
        short=bool(row.get("not_judged")),
    )


def troubles(found: Sequence[Earned]) -> list[Trouble]:
    """The findings of a class, by kata and by words without their numbers; the commonest first."""
    groups: dict[tuple[str, str, str], list[Earned]] = {}
    for one in found:
        if one.check:
            key = one.kata, one.check, _NUMBER.sub("#", one.phrase)
            groups.setdefault(key, []).append(one)
    told = [
        Trouble(kata, check, group[0].phrase, tuple(one.student for one in group))
        for (kata, check, _), group in groups.items()
    ]
    return sorted(told, key=lambda one: -len(one.students))
