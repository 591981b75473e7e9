"""Where each kata stands, from the ledger and the files as they are: nothing is run."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.record.ledger import Ledger, Pass
from grader.tools.git import blob_id


class Known(enum.Enum):
    """What is known of a kata's file as it is."""

    SOLVED = "solved"  # the ledger knows this content
    CHANGED = "changed"  # it knows another one
    EDITED = "edited"  # it knows none
    TODO = "todo"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Present:
    """One kata as it is. `last` is the pass of its content, else its latest pass, if any.

    `blob` is git's id of the content, "" where there is no file.
    """

    kata: Kata
    known: Known
    last: Pass | None
    blob: str

    @property
    def stars(self) -> int:
        """Those that the content has: 0 unless it is solved."""
        return self.last.stars if self.last and self.known is Known.SOLVED else 0


def presents(root: Path, ledger: Ledger) -> Iterator[Present]:
    """Every kata that has a solution, in order; each is looked at when its turn comes."""
    return (present(kata, ledger) for kata in katas(root, SOLUTIONS))


def present(kata: Kata, ledger: Ledger) -> Present:
    """One kata. A stub is still to do, whatever was passed before."""
    last = ledger.last(kata.id)
    try:
        blob = blob_id(kata.path.read_bytes())
    except OSError:
        return Present(kata, Known.GONE, last, "")
    if best := ledger.best(kata.id, blob):
        return Present(kata, Known.SOLVED, best, blob)
    if kata.untouched():
        return Present(kata, Known.TODO, last, blob)
    return Present(kata, Known.CHANGED if last else Known.EDITED, last, blob)


def upcoming(found: Iterable[Present]) -> Present | None:
    """The kata to do next: the first that is there and not solved. Looks at no more than it has to.

    Where the ledger knows none of them, what was edited may well be right: then the first stub.
    A session of pytest has a rule of its own, `report.standings`: it knows what has failed.
    """
    unsolved: list[Present] = []
    told = False
    for one in found:
        told = told or one.last is not None
        if one.known in (Known.TODO, Known.EDITED, Known.CHANGED):
            unsolved.append(one)
        if unsolved and (told or unsolved[0].known is Known.TODO):
            return unsolved[0]
    return next((one for one in unsolved if one.known is Known.TODO), None)
