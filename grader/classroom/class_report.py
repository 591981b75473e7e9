"""A class's report: standings, most missed katas, regraded files, and points.

As text for a terminal, as an HTML page, as CSV, and as CSV for a learning platform.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.batch.samples import TASK
from grader.classroom.students import (
    CLAIMED,
    STUDENT,
    Clone,
    Course,
    Roster,
    RosterRow,
    Snapshot,
    StudentKata,
    StudentStanding,
    find_clones,
    match_roster,
    require_git,
)
from grader.exercise.catalog import Kata, name_of
from grader.exercise.repository import matching
from grader.record.status import FileState
from grader.report.maps import shorten, star_signs
from grader.tools.html import Cell, HtmlTable, page
from grader.verdict import MAX_STARS

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


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


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


def read_class(
    folder: Path, course: Course, roster: Roster | None, until: datetime.datetime | None
) -> tuple[list[StudentStanding], list[str]]:
    """The standings of a roster's students in its order, or of all clones, and notes on the rest.

    With `until`, those of the newest commits that aren't later. Raises NoClass, OSError, or NoGit.
    """
    if until:
        require_git()
    classroom = find_clones(folder)
    clones: Sequence[Clone | Snapshot] = classroom.clones
    notes: list[str] = []
    if roster:
        clones, strangers = match_roster(roster, classroom.clones)
        notes += [f"roster: {problem}" for problem in roster.problems]
        if strangers:
            notes.append(f"not on the roster, and not counted: {', '.join(strangers)}")
    if classroom.others:
        notes.append(f"no clone of the course in {shorten(classroom.others)}")
    if until:
        notes.append(f"counted: the newest commit of each clone until {until:%Y-%m-%d %H:%M %z}")
        clones = [course.snapshot(clone, until) for clone in clones]
    return [course.standing(clone) for clone in clones], notes


# ---- points ----

_MAX_WEIGHT = 1_000_000


def weights(root: Path, choices: Iterable[str]) -> dict[str, float]:
    """The weight of each kata that a NAME=NUMBER selects, the last one's if several do.

    Raises ValueError for an unknown name or a malformed number.
    """
    found: dict[str, float] = {}
    for name, weight in map(_parse_weight, choices):
        found |= {kata.id: weight for kata in matching(root, name)}
    return found


def _parse_weight(text: str) -> tuple[str, float]:
    """The name and the number in NAME=NUMBER."""
    name, _, number = text.rpartition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not name.strip() or not 0 <= weight <= _MAX_WEIGHT:
        raise ValueError(
            f"--weight {text}: needs NAME=NUMBER with a number from 0 to {_MAX_WEIGHT:,}, "
            "such as fusion=2"
        )
    return name.strip(), weight


class Points:
    """The points of students: the stars of each kata times its weight, by default 1.

    Stars are those of the ledger, or with `files`, those that the file earned when graded again;
    the ledger's again if this machine could not judge every rung.
    """

    def __init__(
        self, weights: Mapping[str, float], files: Iterable[RegradedFile] | None = None
    ) -> None:
        self._weights = weights
        self._stars = {
            (file.student, file.kata): max(file.stars, file.claimed if file.partly_judged else 0)
            for file in files or ()
        }

    def of_kata(self, student: str, entry: StudentKata) -> float:
        """A student's points for one kata."""
        stars = self._stars.get((student, entry.kata), entry.stars)
        return stars * self._weights.get(entry.kata, 1.0)

    def total(self, standing: StudentStanding) -> float:
        """A student's points for all katas of the report."""
        return math.fsum(self.of_kata(standing.student, entry) for entry in standing.katas)

    def maximum(self, katas: Iterable[Kata]) -> float:
        """The points for three stars at every kata."""
        return math.fsum(MAX_STARS * self._weights.get(kata.id, 1.0) for kata in katas)


def format_points(points: float) -> str:
    """A number of points with at most two decimals."""
    text = f"{points:.2f}"
    return text.rstrip("0").rstrip(".")


# ---- the report for a terminal ----

MAX_ROWS = 12  # of stuck katas, and of findings
_MAX_PROBLEMS = 3  # of one student
_FIXED_COLUMNS = 48  # columns of a student's name, sums and date
_POINTS_COLUMN = 10
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
    standings: Sequence[StudentStanding],
    katas: Sequence[Kata],
    width: int,
    points: Points | None = None,
) -> RenderableType:
    """A line for each student, with a mark for every kata if they fit into `width`, else counts."""
    tracks = [list(group) for _, group in itertools.groupby(katas, key=lambda kata: kata.track)]
    fixed = _FIXED_COLUMNS + (_POINTS_COLUMN if points else 0)
    wide = fixed + sum(len(track) + 2 for track in tracks) <= width
    table = Table(box=None, pad_edge=False)
    table.add_column("student", no_wrap=True, overflow="ellipsis", max_width=24)
    for heading in ("solved", "stars", *(["points"] if points else []), "latest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for track in tracks:
        number = track[0].track.partition("_")[0]
        table.add_column(number, no_wrap=True, justify="left" if wide else "right")
    for standing in standings:
        cells = (
            standing.student,
            str(standing.solved),
            str(standing.stars),
            *([format_points(points.total(standing))] if points else []),
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


def problem_lines(standings: Iterable[StudentStanding], notes: Iterable[str]) -> Iterator[Text]:
    """The problems of each student, and notes on the whole class."""
    for standing in standings:
        for problem in standing.problems[:_MAX_PROBLEMS]:
            yield Text(f"{standing.student}: {problem}", "yellow")
        if (remaining := len(standing.problems) - _MAX_PROBLEMS) > 0:
            yield Text(f"{standing.student}: and {remaining} more problems", "yellow")
    yield from (Text(note, "yellow") for note in notes)


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
    points: Points | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The whole report. `files` is None if nothing was graded; each note is a paragraph."""
    count = f"{len(standings)} students, {len(katas)} katas."
    source = "From the ledgers only; nothing was graded." if files is None else "Graded again."
    tables = [*_track_tables(standings, katas), _stuck(stuck)]
    if points:
        tables.insert(0, _points_table(standings, points, points.maximum(katas)))
    if files is not None:
        tables += [_claims_table(files), _findings_table(troubles)]
    problems = [(s.student, problem) for s in standings for problem in s.problems]
    if problems:
        caption = "What could not be read counts as not solved."
        tables.append(HtmlTable("Problems", caption, ("student", "problem"), problems))
    return page("Class report", (f"{count} {source}", *notes), tables)


def _points_table(
    standings: Sequence[StudentStanding], points: Points, maximum: float
) -> HtmlTable:
    rows = [
        (
            standing.student,
            _number(standing.solved),
            _number(standing.stars),
            Cell(format_points(points.total(standing)), "number"),
        )
        for standing in standings
    ]
    caption = f"Stars times the katas' weights; at most {format_points(maximum)} points."
    return HtmlTable("Points", caption, ("student", "solved", "stars", "points"), rows)


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


def as_csv(
    standings: Sequence[StudentStanding],
    files: Sequence[RegradedFile] | None,
    points: Points | None = None,
) -> str:
    """Comma-separated, with a line of headings; `graded` is empty if nothing was graded."""
    by_kata = {(standing.student, standing.kata): standing for standing in files or ()}
    rows: list[Sequence[object]] = [(*HEADINGS, *(["points"] if points else []))]
    for standing in standings:
        for entry in standing.katas:
            verdict = by_kata.get((standing.student, entry.kata))
            graded = (verdict.stars, verdict.check, verdict.phrase) if verdict else ("", "", "")
            row = (standing.student, entry.kata, entry.state.value, entry.stars, *graded)
            earned = points and format_points(points.of_kata(standing.student, entry))
            rows.append((*row, *([earned] if earned else [])))
    return _csv_text(rows)


def _csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    for row in rows:
        write([_csv_safe(cell) for cell in row])
    return text.getvalue()


def _csv_safe(cell: object) -> object:
    """A cell that spreadsheets don't interpret as a formula."""
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        return f"'{cell}"
    return cell


# ---- grades for a learning platform ----

#: The title of the column with the points, in every format.
ASSIGNMENT = "Pallas Katas"
#: The learning platforms of `grades_csv`.
PLATFORMS = ("canvas", "moodle", "classroom")


def grades_csv(
    platform: str,
    standings: Sequence[tuple[RosterRow, StudentStanding]],
    points: Points,
    katas: Sequence[Kata],
) -> str:
    """A CSV file with a row for each student and the columns of one of PLATFORMS.

    Moodle rejects a file that has a row without an e-mail, so such rows are left out for it: see
    `not_in_grades`.
    """
    earned = [(row, format_points(points.total(standing))) for row, standing in standings]
    if platform == "canvas":
        headings = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", ASSIGNMENT)
        maximum = ("Points Possible", "", "", "", "", format_points(points.maximum(katas)))
        students = [(row.name, "", "", row.email, "", number) for row, number in earned]
        return _csv_text([headings, maximum, *students])
    if platform == "moodle":
        headings = ("First name", "Last name", "Email address", ASSIGNMENT)
        students = [(*_names(row.name), row.email, number) for row, number in earned if row.email]
        return _csv_text([headings, *students])
    headings = ("Last Name", "First Name", "Email Address", ASSIGNMENT)
    students = [(*reversed(_names(row.name)), row.email, number) for row, number in earned]
    return _csv_text([headings, *students])


def not_in_grades(platform: str | None, roster: Roster) -> list[str]:
    """A note on the students that `grades_csv` leaves out; none if it has all of them."""
    names = [row.name for row in roster.rows if not row.email]
    if platform != "moodle" or not names:
        return []
    return [f"no e-mail on the roster, so not in the grades: {', '.join(names)}"]


def _names(name: str) -> tuple[str, str]:
    """First and last names, from "Ada Lovelace" or "Lovelace, Ada"."""
    last, comma, first = name.partition(",")
    if not comma:
        first, _, last = name.rpartition(" ")
    return (first.strip(), last.strip()) if first.strip() else (last.strip(), "")
