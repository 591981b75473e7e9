"""Samples whose verdicts are known: solutions and known mistakes.

Grading them shows whether an evaluation is set up correctly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.batch.completions import COMPLETION
from grader.batch.samples import ID, TASK
from grader.exercise.catalog import Kata
from grader.exercise.mutants import wrong_version
from grader.verdict import MAX_STARS, Check

EXPECTED = "expected"
#: The most stars of a mistake, by the check that finds it; 0 for all other checks.
_STARS = {Check.LOWERS: 1, Check.COMPILES: 1, Check.COST: 2}
SOLUTION = "solution"


def samples_of(kata: Kata) -> Iterator[dict[str, Any]]:
    """The solution and each known mistake, as lines of samples. Raises KeyProblem.

    `expected` has the fewest and the most stars that it may get (`least_stars`, `most_stars`), and
    the check that finds it (`check`, null for the solution).
    """
    solution = kata.solution.read_text(encoding="utf-8")
    yield _sample(kata, SOLUTION, solution, "the solution", MAX_STARS, MAX_STARS, None)
    for number, mistake in enumerate(kata.key.mistakes, start=1):
        most = _STARS.get(mistake.caught, 0)
        text = wrong_version(solution, mistake)
        name, check = f"mistake {number}", mistake.caught.value
        yield _sample(kata, name, text, mistake.title, 0, most, check)


def _sample(
    kata: Kata, name: str, text: str, title: str, least: int, most: int, check: str | None
) -> dict[str, Any]:
    return {
        TASK: kata.id,
        ID: f"{kata.id}: {name}",
        "title": title,
        EXPECTED: {"least_stars": least, "most_stars": most, "check": check},
        COMPLETION: text,
    }


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many of the submissions that one check should find got the expected verdict.

    `check` is "solution" for solutions. Of `count` submissions, `stars` have an expected number of
    stars. Of these, the expected check found `same`. If several hidden cases fail, the verdict is
    that of the worst, which may have failed an earlier check.
    """

    check: str
    count: int
    stars: int
    same: int


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Agreement by check, and the unexpected results. `skipped` could not be fully judged here."""

    by_check: tuple[Agreement, ...]
    otherwise: tuple[dict[str, Any], ...]
    skipped: int


def compared(results: Sequence[Mapping[str, Any]]) -> BaselineComparison:
    """Compare results with the expected ones. Raises ValueError if the rows aren't such results."""
    rows = [dict(row) for row in results if isinstance(row.get(EXPECTED), dict)]
    if not rows:
        raise ValueError(
            'none of the results has "expected": grade a file from `kata baseline --out`'
        )
    if any("stars" not in row for row in rows):
        raise ValueError("these are samples, not results: grade them with `kata grade` first")
    judged = [row for row in rows if not (row.get("not_judged") and _too_late(row))]
    found = {
        _check(row): [each for each in judged if _check(each) == _check(row)] for row in judged
    }
    order = [SOLUTION, *(check.value for check in Check)]
    by_check = tuple(
        Agreement(
            check,
            len(found[check]),
            sum(map(_as_expected, found[check])),
            sum(_as_expected(row) and _same_check(row) for row in found[check]),
        )
        for check in order
        if check in found
    )
    otherwise = tuple(row for row in judged if not _as_expected(row))
    return BaselineComparison(by_check, otherwise, len(rows) - len(judged))


def _too_late(row: Mapping[str, Any]) -> bool:
    """Whether the expected check comes after the first that can't be judged without libtpu."""
    check = row[EXPECTED]["check"]
    return check is None or Check(check) in _STARS


def _check(row: Mapping[str, Any]) -> str:
    return row[EXPECTED]["check"] or SOLUTION


def _as_expected(row: Mapping[str, Any]) -> bool:
    return row[EXPECTED]["least_stars"] <= row["stars"] <= row[EXPECTED]["most_stars"]


def _same_check(row: Mapping[str, Any]) -> bool:
    finding = row.get("finding")
    return (finding or {}).get("check") == row[EXPECTED]["check"]
