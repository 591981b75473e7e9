"""A class as a page for a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grader.classroom.places import Place, Standing
from grader.classroom.stuck import Stuck
from grader.classroom.table import LEGEND, mark
from grader.classroom.verified import Earned, Trouble
from grader.exercise.catalog import Kata, name_of
from grader.model import MOST_STARS
from grader.record.status import FileState
from grader.tools.pages import Cell, Table, page

Row = Sequence[Cell | str]


def class_page(
    standings: Sequence[Standing],
    katas: Sequence[Kata],
    stuck: Sequence[Stuck],
    found: Sequence[Earned] | None,
    troubles: Sequence[Trouble],
) -> str:
    """All of a report. `found` is None where nothing was graded."""
    count = f"{len(standings)} students, {len(katas)} katas."
    how = "From the ledgers alone: nothing was graded." if found is None else "Graded anew."
    tables = [*_solved(standings, katas), _stuck(stuck)]
    if found is not None:
        tables += [_claims(found), _troubles(troubles)]
    return page("Class report", (f"{count} {how}",), tables)


def _solved(standings: Sequence[Standing], katas: Sequence[Kata]) -> Iterator[Table]:
    """A table for each track."""
    tracks = dict.fromkeys(kata.track for kata in katas)
    for track in tracks:
        places = [n for n, kata in enumerate(katas) if kata.track == track]
        numbers = [katas[n].number for n in places]
        rows = [_student(one, [one.places[n] for n in places]) for one in standings]
        yield Table(track, LEGEND, ("student", "solved", *numbers), rows)


def _student(one: Standing, places: Sequence[Place]) -> Row:
    solved = sum(place.state is FileState.SOLVED for place in places)
    return (one.student, Cell(str(solved), "number"), *map(_mark, places))


def _mark(place: Place) -> Cell:
    kinds = {FileState.EDITED: "bad", FileState.CHANGED: "fair"}
    solved = "good" if place.stars == MOST_STARS else "fair"
    kind = solved if place.state is FileState.SOLVED else kinds.get(place.state, "")
    return Cell(mark(place), f"mark {kind}".strip())


def _stuck(found: Sequence[Stuck]) -> Table:
    rows = [
        (one.kata, _number(len(one.students)), _number(one.tried), ", ".join(one.students))
        for one in found
    ]
    caption = "Katas that somebody has edited, and that the ledger has no pass of."
    return Table("Where the class is stuck", caption, ("kata", "students", "tried", "who"), rows)


def _claims(found: Sequence[Earned]) -> Table:
    rows = [
        (one.student, one.kata, _number(one.claimed), _number(one.stars), one.phrase)
        for one in found
        if one.overclaimed or one.unrecorded
    ]
    caption = "Stars in the ledger beside those that the same file earns when it is graded anew."
    return Table("Ledgers and files", caption, ("student", "kata", "ledger", "graded", ""), rows)


def _troubles(found: Sequence[Trouble]) -> Table:
    rows = [
        (name_of(one.kata), _number(len(one.students)), one.check, one.phrase, _who(one))
        for one in found
    ]
    headings = ("kata", "students", "check", "finding", "who")
    return Table("Findings", "The commonest first; numbers in them may differ.", headings, rows)


def _who(one: Trouble) -> str:
    return ", ".join(one.students)


def _number(count: int) -> Cell:
    return Cell(str(count), "number")
