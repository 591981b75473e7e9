"""A class as text, as a page, and as CSV.

A class as text for a terminal.

A class as a page for a browser.

A class as rows for a spreadsheet: one for each student and kata.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.classroom.students import Earned, Stuck, StudentKata, StudentStanding, Trouble
from grader.exercise.catalog import Kata, name_of
from grader.record.status import FileState
from grader.report.maps import shorten, star_signs
from grader.tools.html import Cell, HtmlTable, page
from grader.verdict import MAX_STARS

MOST_ROWS = 12  # of what the class is stuck at, and of findings
_MOST_PROBLEMS = 3  # of one student
_BESIDE = 48  # columns that a student's name, sums and day take
LEGEND = "1 2 3 stars   ~ edited, not passed   · to do   - no file"


def mark(place: StudentKata) -> str:
    """One character for one kata of one student."""
    match place.state:
        case FileState.SOLVED:
            return str(place.stars)
        case FileState.TODO:
            return "·"
        case FileState.GONE:
            return "-"
    return "~"


def overview(
    standings: Sequence[StudentStanding], katas: Sequence[Kata], width: int
) -> RenderableType:
    """A line for each student: every kata where that fits into `width` columns, else counts."""
    tracks = [list(group) for _, group in itertools.groupby(katas, key=lambda kata: kata.track)]
    every = _BESIDE + sum(len(track) + 2 for track in tracks) <= width
    table = Table(box=None, pad_edge=False)
    table.add_column("student", no_wrap=True, overflow="ellipsis", max_width=24)
    for heading in ("solved", "stars", "latest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for track in tracks:
        number = track[0].track.partition("_")[0]
        table.add_column(number, no_wrap=True, justify="left" if every else "right")
    for one in standings:
        cells = (one.student, str(one.solved), str(one.stars), str(one.latest or "-"))
        table.add_row(*map(Text, cells), *_by_track(one, tracks, every))
    names = ", ".join(f"{' '.join(t[0].track.split('_'))} ({len(t)})" for t in tracks)
    told = LEGEND if every else "solved in each track"
    return Group(_sums(standings, len(katas)), "", table, Text(f"{told}\ntracks: {names}", "dim"))


def _by_track(
    one: StudentStanding, tracks: Sequence[Sequence[Kata]], every: bool
) -> Iterator[Text]:
    places = iter(one.places)
    for track in tracks:
        mine = list(itertools.islice(places, len(track)))
        solved = sum(place.state is FileState.SOLVED for place in mine)
        yield Text("".join(map(mark, mine)) if every else str(solved) if solved else "·")


def _sums(standings: Sequence[StudentStanding], katas: int) -> Text:
    solved = sorted(one.solved for one in standings)
    students = f"{len(solved)} students" if len(solved) > 1 else "1 student"
    middle = f"{median(solved):g}".removesuffix(".0")
    return Text.assemble(
        (f"{students}, {katas} katas", "bold"),
        f"   solved: {middle} in the middle, {solved[0]} to {solved[-1]}",
    )


def where_stuck(found: Sequence[Stuck]) -> RenderableType:
    """The katas that most students are stuck at."""
    if not found:
        return Text("Nobody has edited a kata without passing it.")
    table = _table("stuck at", "students", "of those who tried", "who")
    for one in found[:MOST_ROWS]:
        share = f"{one.share:.0%}"
        table.add_row(name_of(one.kata), str(len(one.students)), share, Text(shorten(one.students)))
    return Group(table, *_rest(len(found) - MOST_ROWS, "katas"))


def findings(found: Sequence[Trouble]) -> RenderableType:
    """What is told most often, by kata."""
    if not found:
        return Text("Every file that was graded has three stars.")
    table = _table("kata", "students", "check", "finding")
    for one in found[:MOST_ROWS]:
        cells = (name_of(one.kata), str(len(one.students)), one.check, one.phrase)
        table.add_row(*map(Text, cells))
    return Group(table, *_rest(len(found) - MOST_ROWS, "findings"))


def claims(found: Sequence[Earned]) -> Iterator[RenderableType]:
    """Whose ledger claims more than the files earn, and whose files earn what no ledger has."""
    if over := [one for one in found if one.overclaimed]:
        table = _table("claimed, not earned", "kata", "ledger", "graded", "finding")
        for one in over:
            table.add_row(Text(one.student), name_of(one.kata), *_both(one), Text(one.phrase))
        yield table
    else:
        yield Text("No ledger claims more than its files earn.")
    if more := [one for one in found if one.unrecorded]:
        table = _table("earned, not recorded", "kata", "ledger", "graded")
        for one in more:
            table.add_row(Text(one.student), name_of(one.kata), *_both(one))
        yield table


def _both(one: Earned) -> tuple[Text, Text]:
    return star_signs(one.claimed), star_signs(one.stars)


def problems(standings: Iterable[StudentStanding], others: Sequence[str]) -> Iterator[Text]:
    """What could not be read, by student, and folders that hold no clone."""
    for one in standings:
        for problem in one.problems[:_MOST_PROBLEMS]:
            yield Text(f"{one.student}: {problem}", "yellow")
        if (rest := len(one.problems) - _MOST_PROBLEMS) > 0:
            yield Text(f"{one.student}: and {rest} more of that kind", "yellow")
    if others:
        yield Text(f"no clone of the course in {shorten(others)}", "yellow")


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=32)
    for heading in headings:
        table.add_column(heading)
    return table


def _rest(count: int, what: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {count} more {what}: --html or --csv has them all", "dim")


Row = Sequence[Cell | str]


def class_page(
    standings: Sequence[StudentStanding],
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


def _solved(standings: Sequence[StudentStanding], katas: Sequence[Kata]) -> Iterator[HtmlTable]:
    """A table for each track."""
    tracks = dict.fromkeys(kata.track for kata in katas)
    for track in tracks:
        places = [n for n, kata in enumerate(katas) if kata.track == track]
        numbers = [katas[n].number for n in places]
        rows = [_student(one, [one.places[n] for n in places]) for one in standings]
        yield HtmlTable(track, LEGEND, ("student", "solved", *numbers), rows)


def _student(one: StudentStanding, places: Sequence[StudentKata]) -> Row:
    solved = sum(place.state is FileState.SOLVED for place in places)
    return (one.student, Cell(str(solved), "number"), *map(_mark, places))


def _mark(place: StudentKata) -> Cell:
    kinds = {FileState.EDITED: "bad", FileState.CHANGED: "fair"}
    solved = "good" if place.stars == MAX_STARS else "fair"
    kind = solved if place.state is FileState.SOLVED else kinds.get(place.state, "")
    return Cell(mark(place), f"mark {kind}".strip())


def _stuck(found: Sequence[Stuck]) -> HtmlTable:
    rows = [
        (one.kata, _number(len(one.students)), _number(one.tried), ", ".join(one.students))
        for one in found
    ]
    caption = "Katas that somebody has edited, and that the ledger has no pass of."
    return HtmlTable(
        "Where the class is stuck", caption, ("kata", "students", "tried", "who"), rows
    )


def _claims(found: Sequence[Earned]) -> HtmlTable:
    rows = [
        (one.student, one.kata, _number(one.claimed), _number(one.stars), one.phrase)
        for one in found
        if one.overclaimed or one.unrecorded
    ]
    caption = "Stars in the ledger beside those that the same file earns when it is graded anew."
    return HtmlTable(
        "Ledgers and files", caption, ("student", "kata", "ledger", "graded", ""), rows
    )


def _troubles(found: Sequence[Trouble]) -> HtmlTable:
    rows = [
        (name_of(one.kata), _number(len(one.students)), one.check, one.phrase, _who(one))
        for one in found
    ]
    headings = ("kata", "students", "check", "finding", "who")
    return HtmlTable("Findings", "The commonest first; numbers in them may differ.", headings, rows)


def _who(one: Trouble) -> str:
    return ", ".join(one.students)


def _number(count: int) -> Cell:
    return Cell(str(count), "number")


HEADINGS = ("student", "kata", "state", "stars", "graded", "check", "finding")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(standings: Sequence[StudentStanding], found: Sequence[Earned] | None) -> str:
    """Comma-separated, with a line of headings; `graded` is empty where nothing was graded."""
    earned = {(one.student, one.kata): one for one in found or ()}
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    write(HEADINGS)
    for one in standings:
        for place in one.places:
            verdict = earned.get((one.student, place.kata))
            graded = (verdict.stars, verdict.check, verdict.phrase) if verdict else ("", "", "")
            row = (one.student, place.kata, place.state.value, place.stars, *graded)
            write([_plain(cell) for cell in row])
    return text.getvalue()


def _plain(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        return f"'{cell}"
    return cell
