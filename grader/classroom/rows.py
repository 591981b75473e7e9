"""A class as rows for a spreadsheet: one for each student and kata."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from grader.classroom.places import Standing
from grader.classroom.verified import Earned

HEADINGS = ("student", "kata", "state", "stars", "graded", "check", "finding")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(standings: Sequence[Standing], found: Sequence[Earned] | None) -> str:
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
