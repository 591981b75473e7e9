"""The state of each kata, from the ledger and the files."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.key_tables import KeyProblem
from grader.exercise.readmes import needs
from grader.record.ledger import Ledger, Pass
from grader.tools.git import blob_id
from grader.verdict import Check


class FileState(enum.Enum):
    """What is known of a kata's file as it is."""

    SOLVED = "solved"  # the ledger knows this content
    CHANGED = "changed"  # it knows another one
    EDITED = "edited"  # it knows none
    TODO = "todo"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class KataStatus:
    """One kata as it is. `last_pass` is the pass of its content, else its latest pass, if any.

    `blob` is git's id of the content, "" where there is no file.
    """

    kata: Kata
    file_state: FileState
    last_pass: Pass | None
    blob: str

    @property
    def done(self) -> bool:
        """Whether nothing is left to do: solved, or written where it can't be judged."""
        if self.file_state in (FileState.EDITED, FileState.CHANGED):
            return not _judged_here(self.kata)
        return self.file_state is FileState.SOLVED

    @property
    def stars(self) -> int:
        """Those that the content has: 0 unless it is solved."""
        return self.last_pass.stars if self.last_pass and self.file_state is FileState.SOLVED else 0


def all_statuses(root: Path, ledger: Ledger) -> Iterator[KataStatus]:
    """Every kata that has a solution, in order; each is looked at when its turn comes."""
    return (status_of(kata, ledger) for kata in katas(root, SOLUTIONS))


def status_of(kata: Kata, ledger: Ledger) -> KataStatus:
    """One kata. A stub is still to do, whatever was passed before."""
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


def _judged_here(kata: Kata) -> bool:
    """Whether this machine has what judges the point of a kata: of some, that is libtpu."""
    try:
        key = kata.key
    except KeyProblem:
        return True
    check = Check.PREDICTIONS if key.predictions else Check.COMPILES
    if not key.target.uses_libtpu or not key.is_about(check):
        return True
    from pallascope.tpu import libtpu  # most commands can do without

    return not libtpu.why_not()


def next_kata(statuses: Iterable[KataStatus], unsolved: Collection[str] = ()) -> KataStatus | None:
    """The kata to do next: the first that is there and not solved, and whose needs are solved.

    Looks at no more than it has to: at the `statuses` before it, and at the names `unsolved`, for
    what it needs. Where every unsolved kata needs another, it is the first of them.
    Where the ledger knows none of them, what was edited may well be right: then the first stub.
    A session of pytest has a rule of its own, `report.standings`: it knows what has failed.
    """
    left: list[KataStatus] = []
    told = False
    for status in statuses:
        told = told or status.last_pass is not None
        if not status.done:
            left.append(status)
        offered = _offered(left, told)
        first = next(iter(_there(left)), None)
        if first and (told or first.file_state is FileState.TODO):
            ready = _first_ready(offered, open_names(left, told).union(unsolved))
            if ready:
                return ready
    return next(iter(_offered(left, told)), None)


def open_names(statuses: Iterable[KataStatus], told: bool) -> set[str]:
    """The names of katas that others should not be done before.

    `told`: the ledger knows some of them. Else what was edited counts as solved.
    """
    return {
        status.kata.name
        for status in statuses
        if not (status.done or (status.file_state is FileState.EDITED and not told))
    }


def _offered(left: Iterable[KataStatus], told: bool) -> list[KataStatus]:
    return [one for one in _there(left) if told or one.file_state is FileState.TODO]


def _there(left: Iterable[KataStatus]) -> list[KataStatus]:
    return [one for one in left if one.file_state is not FileState.GONE]


def _first_ready(offered: Iterable[KataStatus], unsolved: Collection[str]) -> KataStatus | None:
    return next((one for one in offered if not set(unsolved).intersection(_needs(one))), None)


def _needs(status: KataStatus) -> tuple[str, ...]:
    try:
        return needs(status.kata)
    except OSError:
        return ()
