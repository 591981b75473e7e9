"""Samples whose verdicts are known: solutions and known mistakes.

What an evaluation says of them tells whether it is set up right.
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
#: The most stars that a mistake has which the check finds; none, where it is one of the others.
_STARS = {Check.LOWERS: 1, Check.COMPILES: 1, Check.COST: 2}
SOLUTION = "solution"


def samples_of(kata: Kata) -> Iterator[dict[str, Any]]:
    """The solution and each known mistake, as lines of samples. Raises KeyProblem.

    `expected` says how many stars it has at most (`most_stars`), at least (`least_stars`), and
    which check finds it (`check`, null for the solution).
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
    """How many of the submissions that one check finds came out as expected.

    `check` is "solution" for solutions. `stars` of `count` have as many stars as they may have, and
    of these `same` are told so by that very check: where several hidden cases fail, the worst is
    told, and it may have failed earlier.
    """

    check: str
    count: int
    stars: int
    same: int


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """By check, and the results that came out otherwise. `skipped` were not judged whole here."""

    by_check: tuple[Agreement, ...]
    otherwise: tuple[dict[str, Any], ...]
    skipped: int


def compared(results: Sequence[Mapping[str, Any]]) -> BaselineComparison:
    """What became of a baseline. Raises ValueError where no row says what was expected and came."""
    rows = [dict(row) for row in results if isinstance(row.get(EXPECTED), dict)]
    if not rows:
        raise ValueError('none of the results has "expected": grade what `kata baseline` wrote')
    if any("stars" not in row for row in rows):
        raise ValueError("these are samples: compare what `kata grade` made of them")
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
    """Whether what is expected comes behind what could not be judged, for want of libtpu."""
    check = row[EXPECTED]["check"]
    return check is None or Check(check) in _STARS


def _check(row: Mapping[str, Any]) -> str:
    return row[EXPECTED]["check"] or SOLUTION


def _as_expected(row: Mapping[str, Any]) -> bool:
    return row[EXPECTED]["least_stars"] <= row["stars"] <= row[EXPECTED]["most_stars"]


def _same_check(row: Mapping[str, Any]) -> bool:
    finding = row.get("finding")
    return (finding or {}).get("check") == row[EXPECTED]["check"]
