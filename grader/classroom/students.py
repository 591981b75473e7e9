"""A class: clones, the state of each student, regrading, most missed.

A folder with a clone for each student, and what the files of a clone hold.
Of a clone, only the katas and the ledger are read, as bytes: none of its code is imported or run,
and no git is started in it, since a clone's settings may name programs.

Where a student stands at each kata: by the files and the ledger of the clone alone.

What a class does not understand: katas that students have tried and not solved.

What the files of a class earn when they are graded anew, beside what the ledgers claim.
"""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.batch.samples import TASK, Sample
from grader.exercise.catalog import KATAS, TRACK, Kata
from grader.exercise.repository import is_stub
from grader.record.ledger import LEDGER, Ledger, parse_ledger
from grader.record.status import FileState
from grader.tools.git import blob_id

#: How far below the class's folder a clone may lie: FOLDER/assignment/student.
DEEPEST = 3
#: Bytes of the largest file that is read. A submission may have 1 MiB.
LARGEST = 8 << 20


class NoClass(ValueError):
    """A folder holds no clones; the text says what it is instead."""


class Unreadable(ValueError):
    """A file of a clone that is there and isn't read; the text says why."""


@dataclass(frozen=True, slots=True)
class Clone:
    """One student's clone. The student is called by the folder's name, from the class's on."""

    student: str
    root: Path

    def read(self, path: str) -> bytes | None:
        """What a file holds, by its path within the clone; None where there is none.

        Raises Unreadable for a link (it may lead to another student's work), for what is no file,
        and for what is too large.
        """
        try:
            self._demand_no_links(path)
            file = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unreadable(f"{path} can't be read: {error.strerror}") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise Unreadable(f"{path} is no file")
            if found.st_size > LARGEST:
                raise Unreadable(f"{path} has {found.st_size:,} bytes: too many to be read")
            with open(file, "rb", closefd=False) as opened:
                return opened.read(LARGEST)
        finally:
            os.close(file)

    def _demand_no_links(self, path: str) -> None:
        place = self.root
        for part in Path(path).parts:
            place = place / part
            if place.is_symlink():
                raise Unreadable(f"{place.relative_to(self.root)} is a symbolic link, not read")


@dataclass(frozen=True, slots=True)
class Class:
    """The clones in a folder, by student, and the names of its folders that hold none."""

    clones: tuple[Clone, ...]
    others: tuple[str, ...]


def class_in(folder: Path) -> Class:
    """All clones below a folder. Raises NoClass where there is none, or the folder is a clone."""
    if not folder.is_dir():
        raise NoClass(f"{folder} is no folder" if folder.exists() else f"there is no {folder}")
    if _is_clone(folder):
        raise NoClass(
            f"{folder} is a clone of the course: give the folder that holds a clone for each "
            "student"
        )
    found: list[Clone] = []
    others: list[str] = []
    for inside in _folders(folder):
        roots = list(_clones_in(inside, DEEPEST - 1))
        found += [Clone(root.relative_to(folder).as_posix(), root) for root in roots]
        others += [] if roots else [inside.name]
    if not found:
        raise NoClass(f"no folder in {folder} is a clone of the course: none holds {KATAS}/")
    return Class(tuple(found), tuple(others))


def _clones_in(folder: Path, deeper: int) -> Iterator[Path]:
    if _is_clone(folder):
        yield folder
    elif deeper:
        for inside in _folders(folder):
            yield from _clones_in(inside, deeper - 1)


def _folders(folder: Path) -> list[Path]:
    """The folders in one, by name, without hidden ones and links."""
    try:
        inside = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        return []
    return [
        path
        for path in inside
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]


def _is_clone(folder: Path) -> bool:
    katas = folder / KATAS
    return katas.is_dir() and any(TRACK.fullmatch(inside.name) for inside in _folders(katas))


@dataclass(frozen=True, slots=True)
class StudentKata:
    """One kata of one student. `stars` are what the ledger says of this very content, else 0."""

    kata: str
    state: FileState
    stars: int = 0


@dataclass(frozen=True, slots=True)
class StudentStanding:
    """One student: a place for each kata of the course, in its order.

    `latest` is the day of the latest pass in the ledger; `problems` is what could not be read.
    """

    clone: Clone
    places: tuple[StudentKata, ...]
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

    def standing(self, clone: Clone) -> StudentStanding:
        """Where a student stands. What can't be read is among the problems, the rest is there."""
        problems: list[str] = []
        ledger = _ledger(clone, problems)
        places = tuple(self._place(clone, kata, ledger, problems) for kata in self.katas)
        latest = max((one.date for one in ledger.passes), default=None)
        return StudentStanding(clone, places, latest, tuple(problems))

    def _place(self, clone: Clone, kata: Kata, ledger: Ledger, problems: list[str]) -> StudentKata:
        content = _read(clone, file_of(kata), problems)
        if content is None:
            return StudentKata(kata.id, FileState.GONE)
        blob = blob_id(content)
        if best := ledger.best(kata.id, blob):
            return StudentKata(kata.id, FileState.SOLVED, best.stars)
        if blob == self._stubs[kata.id] or is_stub(content, kata):
            return StudentKata(kata.id, FileState.TODO)
        known = ledger.last(kata.id)
        return StudentKata(kata.id, FileState.CHANGED if known else FileState.EDITED)


def file_of(kata: Kata) -> str:
    """The path of a kata's file within any clone."""
    return f"{KATAS}/{kata.id}.py"


def _ledger(clone: Clone, problems: list[str]) -> Ledger:
    content = _read(clone, LEDGER, problems)
    found = parse_ledger((content or b"").decode("utf-8", "replace"))
    problems += found.warnings
    return found


def _read(clone: Clone, path: str, problems: list[str]) -> bytes | None:
    try:
        return clone.read(path)
    except Unreadable as error:
        problems.append(str(error))
        return None


_TRIED = (FileState.SOLVED, FileState.CHANGED, FileState.EDITED)


@dataclass(frozen=True, slots=True)
class Stuck:
    """One kata: how many have tried it, and who has never solved what they tried."""

    kata: str
    tried: int
    students: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of those who have tried it, 0 to 1."""
        return len(self.students) / self.tried


def stuck(standings: Sequence[StudentStanding]) -> list[Stuck]:
    """Katas that somebody is stuck at: those with the most students first, then in order."""
    found = [_at(column, standings) for column in zip(*(s.places for s in standings), strict=True)]
    return sorted((one for one in found if one.students), key=lambda one: -len(one.students))


def _at(places: Iterable[StudentKata], standings: Sequence[StudentStanding]) -> Stuck:
    column = list(zip(standings, places, strict=True))
    return Stuck(
        column[0][1].kata,
        sum(place.state in _TRIED for _, place in column),
        tuple(s.student for s, place in column if place.state is FileState.EDITED),
    )


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


def samples(standings: Iterable[StudentStanding], katas: Mapping[str, Kata]) -> Iterator[Sample]:
    """A sample for each file that is there and no stub, numbered from 1 as lines are."""
    number = 0
    for standing in standings:
        for place in standing.places:
            if place.state not in _GRADED:
                continue
            number += 1
            row = {STUDENT: standing.student, TASK: place.kata, CLAIMED: place.stars}
            yield _sample(number, row, standing, katas[place.kata])


def _sample(number: int, row: dict[str, Any], standing: StudentStanding, kata: Kata) -> Sample:
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
