"""The status of each kata, from the ledger and the files, and the kata to do next."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.key_tables import KeyProblem
from grader.exercise.readmes import prerequisites
from grader.exercise.repository import STATE
from grader.record.ledger import Ledger, Pass
from grader.tools.git import blob_id
from pallascope.model import Check


class FileState(enum.Enum):
    """The state of a kata's file, from its content and the ledger."""

    SOLVED = "solved"  # the ledger has a pass of this content
    CHANGED = "changed"  # the ledger has passes of other contents only
    EDITED = "edited"  # the ledger has no pass of the kata
    TODO = "todo"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class KataStatus:
    """The status of one kata. `last_pass` is the pass of its content, else its latest pass, if any.

    `blob` is git's id of the content, "" if there is no file.
    """

    kata: Kata
    file_state: FileState
    last_pass: Pass | None
    blob: str

    @property
    def done(self) -> bool:
        """Whether it is solved, or edited on a machine that can't judge it."""
        if self.file_state in (FileState.EDITED, FileState.CHANGED):
            return not _can_be_judged_here(self.kata)
        return self.file_state is FileState.SOLVED

    @property
    def stars(self) -> int:
        """The stars of the file's content: 0 unless it is solved."""
        return self.last_pass.stars if self.last_pass and self.file_state is FileState.SOLVED else 0


def all_statuses(root: Path, ledger: Ledger) -> Iterator[KataStatus]:
    """The status of every kata that has a solution, in order, evaluated lazily."""
    return (status_of(kata, ledger) for kata in katas(root, SOLUTIONS))


def status_of(kata: Kata, ledger: Ledger) -> KataStatus:
    """The status of one kata. A stub is TODO, even if the kata was passed before."""
    last = ledger.last(kata.id)
    try:
        blob = blob_id(kata.path.read_bytes())
    except OSError:
        return KataStatus(kata, FileState.GONE, last, "")
    if best := ledger.best(kata.id, blob):
        return KataStatus(kata, FileState.SOLVED, best, blob)
    if kata.untouched():
        return KataStatus(kata, FileState.TODO, last, blob)
    return KataStatus(kata, FileState.CHANGED if last else FileState.EDITED, last, blob)


#: Days from the first pass of a kata to its first review, and from each review to the next. So a
#: kata comes back after 2, 7, 30 and 90 days, or later by as much as its reviews came later.
REVIEW_GAPS = (2, 5, 23, 60)


@dataclass(frozen=True, slots=True)
class DueReview:
    """A review of a solved kata, the day of its first pass, and the day when the review is due."""

    kata: Kata
    solved: datetime.date
    due: datetime.date


def reviews(
    statuses: Iterable[KataStatus],
    ledger: Ledger,
    skipped: Mapping[str, Sequence[datetime.date]],
) -> tuple[DueReview, ...]:
    """The next review of each solved kata, in the order of their days.

    `skipped` has the days on which reviews of a kata were skipped. A kata has as many reviews as
    REVIEW_GAPS.
    """
    found = []
    for status in statuses:
        if status.file_state is not FileState.SOLVED:
            continue
        passes = [one for one in ledger.passes if one.kata == status.kata.id]
        first = min(one.date for one in passes)
        days = [one.date for one in passes if one.is_review]
        days = sorted([*days, *skipped.get(status.kata.id, ())])
        if len(days) < len(REVIEW_GAPS):
            gap = datetime.timedelta(days=REVIEW_GAPS[len(days)])
            found.append(DueReview(status.kata, first, (days[-1] if days else first) + gap))
    return tuple(sorted(found, key=lambda review: review.due))


#: The file in .kata with the days of skipped reviews, by kata.
SKIPPED = "skipped_reviews.json"


def skipped_reviews(root: Path) -> dict[str, list[datetime.date]]:
    """The days on which reviews were skipped, by kata; none if the file is missing or damaged."""
    try:
        found = json.loads((root / STATE / SKIPPED).read_text(encoding="utf-8"))
        return {
            str(kata): [datetime.date.fromisoformat(day) for day in days]
            for kata, days in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _can_be_judged_here(kata: Kata) -> bool:
    """Whether this machine can judge the point of a kata, which may need libtpu."""
    try:
        key = kata.key
    except KeyProblem:
        return True
    check = Check.PREDICTIONS if key.predictions else Check.COMPILES
    if not key.target.uses_libtpu or not key.is_about(check):
        return True
    from pallascope.tpu import libtpu  # most commands can do without

    return not libtpu.unavailable_reason()


def next_kata(statuses: Iterable[KataStatus], unsolved: Collection[str] = ()) -> KataStatus | None:
    """The kata to do next: the first that exists, is not solved, and has solved prerequisites.

    Statuses after it aren't read. `unsolved` are names of other katas that are not solved. If every
    unsolved kata needs another one, the first of them is next. If the ledger has none of the katas,
    edited files may be right, so the first stub is next. A pytest session knows which katas fail,
    and uses `report.session_standings` instead.
    """
    remaining: list[KataStatus] = []
    has_passes = False
    for status in statuses:
        has_passes = has_passes or status.last_pass is not None
        if not status.done:
            remaining.append(status)
        candidates = _candidates(remaining, has_passes)
        first = next(iter(_existing(remaining)), None)
        if first and (has_passes or first.file_state is FileState.TODO):
            ready = _first_ready(candidates, unsolved_names(remaining, has_passes).union(unsolved))
            if ready:
                return ready
    return next(iter(_candidates(remaining, has_passes)), None)


def unsolved_names(statuses: Iterable[KataStatus], has_passes: bool) -> set[str]:
    """The names of unsolved katas. Unless the ledger `has_passes`, edited katas count as solved."""
    return {
        status.kata.name
        for status in statuses
        if not (status.done or (status.file_state is FileState.EDITED and not has_passes))
    }


def _candidates(remaining: Iterable[KataStatus], has_passes: bool) -> list[KataStatus]:
    return [
        status
        for status in _existing(remaining)
        if has_passes or status.file_state is FileState.TODO
    ]


def _existing(remaining: Iterable[KataStatus]) -> list[KataStatus]:
    return [status for status in remaining if status.file_state is not FileState.GONE]


def _first_ready(candidates: Iterable[KataStatus], unsolved: Collection[str]) -> KataStatus | None:
    return next(
        (status for status in candidates if not set(unsolved).intersection(_needs(status))), None
    )


def _needs(status: KataStatus) -> tuple[str, ...]:
    try:
        return prerequisites(status.kata)
    except OSError:
        return ()
