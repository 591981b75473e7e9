"""Saved attempts: what a kata's file held before a reset, a restore or an update wrote over it.

They lie in .kata/attempts/TRACK/KATA/TIME_STUB.py; `repository.keep` writes them.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from grader.exercise import repository
from grader.exercise.catalog import Kata, kata_at, katas
from grader.exercise.regions import RegionError, fill, written
from grader.exercise.repository import ATTEMPTS, STATE, STUB, TIME, RepositoryError
from grader.tools.git import blob_id

_NAME = re.compile(r"(?P<time>[\d-]+_[\d-]+_\d+)(?:_(?P<stub>[0-9a-f]+))?\.py")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One saved file. `number` counts a kata's attempts from 1, the oldest."""

    kata: Kata
    number: int
    file: Path
    saved: datetime.datetime
    stub: str  # the first digits of the id of the stub as it was then; "" where that is not known

    @property
    def when(self) -> str:
        return f"{self.saved:%Y-%m-%d %H:%M}"

    def text(self) -> str:
        """What was saved, with "?" for what is no UTF-8."""
        return self.file.read_text(encoding="utf-8", errors="replace")

    def body(self) -> list[str]:
        """The lines of its regions that are not blank; of the whole file if it has none."""
        try:
            regions = written(self.text())
        except RegionError:
            regions = ()
        lines = [line for region in regions for line in region] or self.text().split("\n")
        return [line.strip() for line in lines if line.strip()]


def attempts(kata: Kata) -> tuple[Attempt, ...]:
    """The attempts of one kata, oldest first. Files of other names count for nothing."""
    found = []
    for file in sorted(repository.attempts_of(kata).glob("*.py")):
        if (name := _NAME.fullmatch(file.name)) and (saved := _time(name["time"])):
            found.append(Attempt(kata, len(found) + 1, file, saved, name["stub"] or ""))
    return tuple(found)


def _time(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, TIME)
    except ValueError:
        return None


def all_attempts(root: Path) -> tuple[Attempt, ...]:
    """Every attempt of the clone, by kata, also of katas that are no more."""
    folders = (root / STATE / ATTEMPTS).glob("*/*")
    places = (f.relative_to(root / STATE / ATTEMPTS) for f in folders)
    files = (root / "katas" / place.parent / f"{place.name}.py" for place in places)
    found = {kata for file in files if (kata := kata_at(root, file))}
    known = [kata for kata in katas(root) if kata in found]
    rest = sorted(found.difference(known), key=lambda kata: kata.id)
    return tuple(attempt for kata in (*known, *rest) for attempt in attempts(kata))


def chosen(kata: Kata, number: int | None) -> Attempt:
    """The attempt of that number, the newest for None. Raises RepositoryError."""
    found = attempts(kata)
    if not found:
        raise RepositoryError(f"no attempt at {kata.name} is saved; kata reset saves one")
    if number is None:
        return found[-1]
    if not 1 <= number <= len(found):
        there = f"{len(found)} are" if len(found) > 1 else "1 is"
        raise RepositoryError(f"{kata.name} has no attempt {number}: {there} saved, kata restore")
    return found[number - 1]


def restored(attempt: Attempt, whole: bool) -> tuple[bytes, bool]:
    """What bringing an attempt back writes, and whether that is the file as it was saved.

    It is, with `whole`, and where the stub is still the one that the attempt was made from.
    Otherwise upstream may have changed the kata: then what was written in the regions comes back,
    in the kata as it is shipped now. Raises RepositoryError where its regions are others.
    """
    data = attempt.file.read_bytes()
    if whole:
        return data, True
    shipped = attempt.kata.shipped()
    if attempt.stub == blob_id(shipped.encode())[:STUB]:
        return data, True
    try:
        text = fill(shipped, written(data.decode().replace("\r\n", "\n")))
    except ValueError as error:
        raise RepositoryError(
            f"attempt {attempt.number} has not the regions of {attempt.kata.name} as it is shipped "
            f"now ({error}): kata restore {attempt.kata.name} {attempt.number} --whole brings "
            "the file back as it was"
        ) from None
    return text.encode(), text.encode() == data
