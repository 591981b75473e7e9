"""A class as text for a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.classroom.places import Place, Standing
from grader.classroom.stuck import Stuck
from grader.classroom.verified import Earned, Trouble
from grader.exercise.catalog import Kata, name_of
from grader.record.status import FileState
from grader.report.marks import star_signs
from grader.report.progress_map import some

MOST_ROWS = 12  # of what the class is stuck at, and of findings
_MOST_PROBLEMS = 3  # of one student
_BESIDE = 48  # columns that a student's name, sums and day take
LEGEND = "1 2 3 stars   ~ edited, not passed   · to do   - no file"


def mark(place: Place) -> str:
    """One character for one kata of one student."""
    match place.state:
        case FileState.SOLVED:
            return str(place.stars)
        case FileState.TODO:
            return "·"
        case FileState.GONE:
            return "-"
    return "~"


def overview(standings: Sequence[Standing], katas: Sequence[Kata], width: int) -> RenderableType:
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


def _by_track(one: Standing, tracks: Sequence[Sequence[Kata]], every: bool) -> Iterator[Text]:
    places = iter(one.places)
    for track in tracks:
        mine = list(itertools.islice(places, len(track)))
        solved = sum(place.state is FileState.SOLVED for place in mine)
        yield Text("".join(map(mark, mine)) if every else str(solved) if solved else "·")


def _sums(standings: Sequence[Standing], katas: int) -> Text:
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
        table.add_row(name_of(one.kata), str(len(one.students)), share, Text(some(one.students)))
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


def problems(standings: Iterable[Standing], others: Sequence[str]) -> Iterator[Text]:
    """What could not be read, by student, and folders that hold no clone."""
    for one in standings:
        for problem in one.problems[:_MOST_PROBLEMS]:
            yield Text(f"{one.student}: {problem}", "yellow")
        if (rest := len(one.problems) - _MOST_PROBLEMS) > 0:
            yield Text(f"{one.student}: and {rest} more of that kind", "yellow")
    if others:
        yield Text(f"no clone of the course in {some(others)}", "yellow")


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=32)
    for heading in headings:
        table.add_column(heading)
    return table


def _rest(count: int, what: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {count} more {what}: --html or --csv has them all", "dim")
