"""A class's report as text for a terminal, as an HTML page, and as CSV."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.classroom.students import (
    CommonFinding,
    RegradedFile,
    StuckKata,
    StudentKata,
    StudentStanding,
)
from grader.exercise.catalog import Kata, name_of
from grader.record.status import FileState
from grader.report.maps import shorten, star_signs
from grader.tools.html import Cell, HtmlTable, page
from grader.verdict import MAX_STARS

MAX_ROWS = 12  # of stuck katas, and of findings
_MAX_PROBLEMS = 3  # of one student
_FIXED_COLUMNS = 48  # columns of a student's name, sums and date
LEGEND = "1 2 3 stars   ~ edited, not passed   · to do   - no file"


def status_mark(entry: StudentKata) -> str:
    """One character for one kata of one student."""
    match entry.state:
        case FileState.SOLVED:
            return str(entry.stars)
        case FileState.TODO:
            return "·"
        case FileState.GONE:
            return "-"
    return "~"


def overview(
    standings: Sequence[StudentStanding], katas: Sequence[Kata], width: int
) -> RenderableType:
    """A line for each student, with a mark for every kata if they fit into `width`, else counts."""
    tracks = [list(group) for _, group in itertools.groupby(katas, key=lambda kata: kata.track)]
    wide = _FIXED_COLUMNS + sum(len(track) + 2 for track in tracks) <= width
    table = Table(box=None, pad_edge=False)
    table.add_column("student", no_wrap=True, overflow="ellipsis", max_width=24)
    for heading in ("solved", "stars", "latest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for track in tracks:
        number = track[0].track.partition("_")[0]
        table.add_column(number, no_wrap=True, justify="left" if wide else "right")
    for standing in standings:
        cells = (
            standing.student,
            str(standing.solved),
            str(standing.stars),
            str(standing.latest or "-"),
        )
        table.add_row(*map(Text, cells), *_by_track(standing, tracks, wide))
    names = ", ".join(f"{' '.join(t[0].track.split('_'))} ({len(t)})" for t in tracks)
    legend = LEGEND if wide else "solved in each track"
    return Group(
        _summary(standings, len(katas)), "", table, Text(f"{legend}\ntracks: {names}", "dim")
    )


def _by_track(
    standing: StudentStanding, tracks: Sequence[Sequence[Kata]], wide: bool
) -> Iterator[Text]:
    entries = iter(standing.katas)
    for track in tracks:
        track_katas = list(itertools.islice(entries, len(track)))
        solved = sum(entry.state is FileState.SOLVED for entry in track_katas)
        yield Text(
            "".join(map(status_mark, track_katas)) if wide else str(solved) if solved else "·"
        )


def _summary(standings: Sequence[StudentStanding], katas: int) -> Text:
    solved = sorted(standing.solved for standing in standings)
    students = f"{len(solved)} students" if len(solved) > 1 else "1 student"
    median_text = f"{median(solved):g}".removesuffix(".0")
    return Text.assemble(
        (f"{students}, {katas} katas", "bold"),
        f"   solved: median {median_text}, {solved[0]} to {solved[-1]}",
    )


def stuck_table(stuck: Sequence[StuckKata]) -> RenderableType:
    """The katas that most students are stuck at."""
    if not stuck:
        return Text("Nobody has edited a kata without passing it.")
    table = _table("stuck at", "students", "of those who tried", "who")
    for kata in stuck[:MAX_ROWS]:
        share = f"{kata.share:.0%}"
        table.add_row(
            name_of(kata.kata), str(len(kata.students)), share, Text(shorten(kata.students))
        )
    return Group(table, *_others(len(stuck) - MAX_ROWS, "katas"))


def findings_table(common: Sequence[CommonFinding]) -> RenderableType:
    """The most common findings, by kata."""
    if not common:
        return Text("Every file that was graded has three stars.")
    table = _table("kata", "students", "check", "finding")
    for finding in common[:MAX_ROWS]:
        cells = (name_of(finding.kata), str(len(finding.students)), finding.check, finding.phrase)
        table.add_row(*map(Text, cells))
    return Group(table, *_others(len(common) - MAX_ROWS, "findings"))


def claim_tables(files: Sequence[RegradedFile]) -> Iterator[RenderableType]:
    """Students whose ledger claims more stars than the files earn, or fewer."""
    if overclaimed := [file for file in files if file.overclaimed]:
        table = _table("claimed, not earned", "kata", "ledger", "graded", "finding")
        for file in overclaimed:
            table.add_row(Text(file.student), name_of(file.kata), *_both(file), Text(file.phrase))
        yield table
    else:
        yield Text("No ledger claims more than its files earn.")
    if unrecorded := [file for file in files if file.unrecorded]:
        table = _table("earned, not recorded", "kata", "ledger", "graded")
        for file in unrecorded:
            table.add_row(Text(file.student), name_of(file.kata), *_both(file))
        yield table


def _both(file: RegradedFile) -> tuple[Text, Text]:
    return star_signs(file.claimed), star_signs(file.stars)


def problem_lines(standings: Iterable[StudentStanding], others: Sequence[str]) -> Iterator[Text]:
    """Unreadable files by student, and folders without a clone."""
    for standing in standings:
        for problem in standing.problems[:_MAX_PROBLEMS]:
            yield Text(f"{standing.student}: {problem}", "yellow")
        if (remaining := len(standing.problems) - _MAX_PROBLEMS) > 0:
            yield Text(f"{standing.student}: and {remaining} more problems", "yellow")
    if others:
        yield Text(f"no clone of the course in {shorten(others)}", "yellow")


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=32)
    for heading in headings:
        table.add_column(heading)
    return table


def _others(count: int, noun: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {count} more {noun}: --html or --csv has them all", "dim")


Row = Sequence[Cell | str]


def class_page(
    standings: Sequence[StudentStanding],
    katas: Sequence[Kata],
    stuck: Sequence[StuckKata],
    files: Sequence[RegradedFile] | None,
    troubles: Sequence[CommonFinding],
) -> str:
    """The whole report. `files` is None if nothing was graded."""
    count = f"{len(standings)} students, {len(katas)} katas."
    source = "From the ledgers only; nothing was graded." if files is None else "Graded again."
    tables = [*_track_tables(standings, katas), _stuck(stuck)]
    if files is not None:
        tables += [_claims_table(files), _findings_table(troubles)]
    return page("Class report", (f"{count} {source}",), tables)


def _track_tables(
    standings: Sequence[StudentStanding], katas: Sequence[Kata]
) -> Iterator[HtmlTable]:
    """A table for each track."""
    tracks = dict.fromkeys(kata.track for kata in katas)
    for track in tracks:
        indices = [n for n, kata in enumerate(katas) if kata.track == track]
        numbers = [katas[n].number for n in indices]
        rows = [
            _student_row(standing, [standing.katas[n] for n in indices]) for standing in standings
        ]
        yield HtmlTable(track, LEGEND, ("student", "solved", *numbers), rows)


def _student_row(one: StudentStanding, places: Sequence[StudentKata]) -> Row:
    solved = sum(place.state is FileState.SOLVED for place in places)
    return (one.student, Cell(str(solved), "number"), *map(_mark_cell, places))


def _mark_cell(entry: StudentKata) -> Cell:
    kinds = {FileState.EDITED: "bad", FileState.CHANGED: "fair"}
    solved = "good" if entry.stars == MAX_STARS else "fair"
    kind = solved if entry.state is FileState.SOLVED else kinds.get(entry.state, "")
    return Cell(status_mark(entry), f"mark {kind}".strip())


def _stuck(stuck: Sequence[StuckKata]) -> HtmlTable:
    rows = [
        (kata.kata, _number(len(kata.students)), _number(kata.tried), ", ".join(kata.students))
        for kata in stuck
    ]
    caption = "Katas that students have edited, without a pass in their ledger."
    return HtmlTable(
        "Where the class is stuck", caption, ("kata", "students", "tried", "who"), rows
    )


def _claims_table(files: Sequence[RegradedFile]) -> HtmlTable:
    rows = [
        (file.student, file.kata, _number(file.claimed), _number(file.stars), file.phrase)
        for file in files
        if file.overclaimed or file.unrecorded
    ]
    caption = "Stars in the ledger, and stars that the same file earned when graded again."
    return HtmlTable(
        "Ledgers and files", caption, ("student", "kata", "ledger", "graded", ""), rows
    )


def _findings_table(common: Sequence[CommonFinding]) -> HtmlTable:
    rows = [
        (
            name_of(finding.kata),
            _number(len(finding.students)),
            finding.check,
            finding.phrase,
            _student_names(finding),
        )
        for finding in common
    ]
    headings = ("kata", "students", "check", "finding", "who")
    return HtmlTable(
        "Findings", "The most common first; numbers in them may differ.", headings, rows
    )


def _student_names(finding: CommonFinding) -> str:
    return ", ".join(finding.students)


def _number(count: int) -> Cell:
    return Cell(str(count), "number")


HEADINGS = ("student", "kata", "state", "stars", "graded", "check", "finding")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(standings: Sequence[StudentStanding], files: Sequence[RegradedFile] | None) -> str:
    """Comma-separated, with a line of headings; `graded` is empty if nothing was graded."""
    by_kata = {(standing.student, standing.kata): standing for standing in files or ()}
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    write(HEADINGS)
    for standing in standings:
        for entry in standing.katas:
            verdict = by_kata.get((standing.student, entry.kata))
            graded = (verdict.stars, verdict.check, verdict.phrase) if verdict else ("", "", "")
            row = (standing.student, entry.kata, entry.state.value, entry.stars, *graded)
            write([_csv_safe(cell) for cell in row])
    return text.getvalue()


def _csv_safe(cell: object) -> object:
    """A cell that spreadsheets don't interpret as a formula."""
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        return f"'{cell}"
    return cell
