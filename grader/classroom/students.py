"""A class: the clones of its students, their standings, regrading, and most missed katas.

Only the katas and the ledger of a clone are read, as bytes. None of its code is imported or run,
and git isn't run in it, because a clone's settings may name programs.
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
from pallascope.tools.text import printable

#: A clone may be this many levels below the class's folder: FOLDER/assignment/student.
MAX_DEPTH = 3
#: Larger files are not read. A submission may have 1 MiB.
MAX_BYTES = 8 << 20


class NoClass(ValueError):
    """A folder contains no clones. The text says why."""


class Unreadable(ValueError):
    """A clone's file exists, but isn't read. The text says why."""


@dataclass(frozen=True, slots=True)
class Clone:
    """One student's clone. The student's name is the folder's path below the class's, printable."""

    student: str
    root: Path

    def read(self, path: str) -> bytes | None:
        """The content of a file, by its path within the clone; None if it doesn't exist.

        Raises Unreadable for links (they may lead to another student's work), for anything but
        regular files, and for large files.
        """
        try:
            self._require_no_links(path)
            file = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unreadable(f"{path} can't be read: {error.strerror}") from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{path} isn't a regular file")
            if status.st_size > MAX_BYTES:
                raise Unreadable(f"{path} has {status.st_size:,} bytes: too many to read")
            with open(file, "rb", closefd=False) as opened:
                return opened.read(MAX_BYTES)
        finally:
            os.close(file)

    def _require_no_links(self, path: str) -> None:
        file = self.root
        for part in Path(path).parts:
            file = file / part
            if file.is_symlink():
                raise Unreadable(f"{file.relative_to(self.root)} is a symbolic link, not read")


@dataclass(frozen=True, slots=True)
class Classroom:
    """The clones in a folder, sorted by student, and the names of its other folders."""

    clones: tuple[Clone, ...]
    others: tuple[str, ...]


def find_clones(folder: Path) -> Classroom:
    """All clones below a folder. Raises NoClass if there is none, or the folder is a clone."""
    if not folder.is_dir():
        problem = "isn't a folder" if folder.exists() else "doesn't exist"
        raise NoClass(f"{folder} {problem}")
    if _is_clone(folder):
        raise NoClass(
            f"{folder} is a clone of the course: give the folder that has a clone for each student"
        )
    clones: list[Clone] = []
    others: list[str] = []
    for child in _folders(folder):
        roots = list(_clones_in(child, MAX_DEPTH - 1))
        names = [printable(root.relative_to(folder).as_posix()) for root in roots]
        clones += map(Clone, names, roots)
        others += [] if roots else [printable(child.name)]
    if not clones:
        raise NoClass(f"no folder in {folder} is a clone of the course: none has {KATAS}/")
    return Classroom(tuple(clones), tuple(others))


def _clones_in(folder: Path, depth: int) -> Iterator[Path]:
    if _is_clone(folder):
        yield folder
    elif depth:
        for child in _folders(folder):
            yield from _clones_in(child, depth - 1)


def _folders(folder: Path) -> list[Path]:
    """The subfolders, sorted by name, without hidden folders and links."""
    try:
        children = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        return []
    return [
        path
        for path in children
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]


def _is_clone(folder: Path) -> bool:
    katas = folder / KATAS
    return katas.is_dir() and any(TRACK.fullmatch(inside.name) for inside in _folders(katas))


@dataclass(frozen=True, slots=True)
class StudentKata:
    """One kata of one student. `stars` are those of this content in the ledger, else 0."""

    kata: str
    state: FileState
    stars: int = 0


@dataclass(frozen=True, slots=True)
class StudentStanding:
    """The standing of one student at each kata of the course, in the course's order.

    `latest` is the date of the latest pass in the ledger. `problems` lists unreadable files.
    """

    clone: Clone
    katas: tuple[StudentKata, ...]
    latest: datetime.date | None = None
    problems: tuple[str, ...] = ()

    @property
    def student(self) -> str:
        return self.clone.student

    @property
    def solved(self) -> int:
        """The number of katas whose content has a pass in the ledger."""
        return sum(place.state is FileState.SOLVED for place in self.katas)

    @property
    def stars(self) -> int:
        """The sum of the stars of all katas."""
        return sum(place.stars for place in self.katas)


class Course:
    """The katas of a class report, from the teacher's clone."""

    def __init__(self, katas: Iterable[Kata]) -> None:
        self.katas: Sequence[Kata] = tuple(katas)
        self._stubs = {kata.id: blob_id(kata.stub_text().encode()) for kata in self.katas}

    def standing(self, clone: Clone) -> StudentStanding:
        """The standing of a student. Unreadable files are listed as problems."""
        problems: list[str] = []
        ledger = _ledger(clone, problems)
        entries = tuple(self._student_kata(clone, kata, ledger, problems) for kata in self.katas)
        latest = max((recorded.date for recorded in ledger.passes), default=None)
        return StudentStanding(clone, entries, latest, tuple(problems))

    def _student_kata(
        self, clone: Clone, kata: Kata, ledger: Ledger, problems: list[str]
    ) -> StudentKata:
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
    ledger = parse_ledger((content or b"").decode("utf-8", "replace"))
    problems += ledger.warnings
    return ledger


def _read(clone: Clone, path: str, problems: list[str]) -> bytes | None:
    try:
        return clone.read(path)
    except Unreadable as error:
        problems.append(str(error))
        return None


_TRIED_STATES = (FileState.SOLVED, FileState.CHANGED, FileState.EDITED)


@dataclass(frozen=True, slots=True)
class StuckKata:
    """One kata: the number of students who tried it, and those who have not solved it."""

    kata: str
    tried: int
    students: tuple[str, ...]

    @property
    def share(self) -> float:
        """The fraction of those who tried it, 0 to 1."""
        return len(self.students) / self.tried


def stuck_katas(standings: Sequence[StudentStanding]) -> list[StuckKata]:
    """Katas that students have tried and not solved, those with the most students first."""
    columns = [
        _stuck_kata(column, standings) for column in zip(*(s.katas for s in standings), strict=True)
    ]
    return sorted((one for one in columns if one.students), key=lambda one: -len(one.students))


def _stuck_kata(entries: Iterable[StudentKata], standings: Sequence[StudentStanding]) -> StuckKata:
    column = list(zip(standings, entries, strict=True))
    return StuckKata(
        column[0][1].kata,
        sum(entry.state in _TRIED_STATES for _, entry in column),
        tuple(s.student for s, entry in column if entry.state is FileState.EDITED),
    )


STUDENT, CLAIMED = "student", "claimed"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_GRADED_STATES = (FileState.SOLVED, FileState.CHANGED, FileState.EDITED)


@dataclass(frozen=True, slots=True)
class RegradedFile:
    """One regraded file: the stars that the ledger claims for it, and those that it earned.

    `check` and `phrase` are those of its finding, "" if there is none. `partly_judged`: this
    machine could not judge every rung, so fewer stars are not the file's fault.
    """

    student: str
    kata: str
    claimed: int
    stars: int
    check: str = ""
    phrase: str = ""
    partly_judged: bool = False

    @property
    def overclaimed(self) -> bool:
        """Whether the ledger has more stars than the file earns."""
        return self.claimed > self.stars and not self.partly_judged

    @property
    def unrecorded(self) -> bool:
        """Whether the file earns more stars than the ledger has."""
        return self.stars > self.claimed


@dataclass(frozen=True, slots=True)
class CommonFinding:
    """A finding of one or more files of a kata, apart from the numbers in its phrase."""

    kata: str
    check: str
    phrase: str
    students: tuple[str, ...]


def samples(standings: Iterable[StudentStanding], katas: Mapping[str, Kata]) -> Iterator[Sample]:
    """A sample for each file that isn't a stub, numbered from 1."""
    number = 0
    for standing in standings:
        for entry in standing.katas:
            if entry.state not in _GRADED_STATES:
                continue
            number += 1
            row = {STUDENT: standing.student, TASK: entry.kata, CLAIMED: entry.stars}
            yield _sample(number, row, standing, katas[entry.kata])


def _sample(number: int, row: dict[str, Any], standing: StudentStanding, kata: Kata) -> Sample:
    try:
        content = standing.clone.read(file_of(kata))
        if content is None:
            return Sample(number, row, kata.id, None, "the file is gone")
        return Sample(number, row, kata.id, content.decode("utf-8"))
    except Unreadable as error:
        return Sample(number, row, kata.id, None, str(error))
    except UnicodeDecodeError as error:
        return Sample(number, row, kata.id, None, f"the file isn't UTF-8: {error.reason}")


def regraded_files(rows: Iterable[Mapping[str, Any]]) -> list[RegradedFile]:
    """The regraded files, from the rows of their results."""
    return [_regraded_file(row) for row in rows]


def _regraded_file(row: Mapping[str, Any]) -> RegradedFile:
    finding = row.get("finding") or {}
    return RegradedFile(
        row[STUDENT],
        row[TASK],
        row[CLAIMED],
        row["stars"],
        finding.get("check", ""),
        finding.get("phrase", ""),
        partly_judged=bool(row.get("not_judged")),
    )


def common_findings(files: Sequence[RegradedFile]) -> list[CommonFinding]:
    """The findings of a class, grouped by kata and phrase without numbers, most common first."""
    groups: dict[tuple[str, str, str], list[RegradedFile]] = {}
    for file in files:
        if file.check:
            key = file.kata, file.check, _NUMBER.sub("#", file.phrase)
            groups.setdefault(key, []).append(file)
    findings = [
        CommonFinding(kata, check, group[0].phrase, tuple(file.student for file in group))
        for (kata, check, _), group in groups.items()
    ]
    return sorted(findings, key=lambda file: -len(file.students))
