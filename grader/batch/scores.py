"""Scores of a set of samples: pass@k for each star and fast_p, by track, and a page of them.

pass@k is the probability that at least one of k samples of a task earns that many stars, estimated
without bias from n samples of which c earn them: 1 - C(n - c, k) / C(n, k), averaged over tasks. A
failed sample earns no stars here, also if its results are right.
fast_p is the fraction of samples that are right and predicted to be at least p times as fast as
par, averaged over the tasks that ask for a kernel.

A baseline has samples whose verdicts are known: solutions and known mistakes. Grading them shows
whether an evaluation is set up correctly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from grader.batch.samples import COMPLETION, ID, TASK
from grader.exercise.catalog import Kata
from grader.exercise.mutants import wrong_version
from grader.tools.html import Cell, HtmlTable, page
from grader.verdict import MAX_STARS
from pallascope.model import Check

SPEEDS = (0.5, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Scored:
    """One sample: its stars, its speed as a multiple of par's (None: not known), and whether it is
    solved: a failed sample has a star if its results are right but a TPU refuses it."""

    task: str
    stars: int
    speed: float | None = None
    solved: bool = True


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a group of tasks. `passes` is by (stars, k), `fast` by p; None if it can't be
    estimated, because a task has too few samples, or none asks for a kernel."""

    name: str
    tasks: int
    samples: int
    passes: Mapping[tuple[int, int], float | None]
    fast: Mapping[float, float | None]


def pass_at(k: int, samples: int, right: int) -> float:
    """The probability that one of k samples is right. Raises ValueError if k isn't 1 to samples."""
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} can't be estimated from {samples} samples")
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def scores(name: str, scored: Iterable[Scored], ks: Sequence[int], kernels: set[str]) -> Scores:
    """The scores of a group. `kernels` are the tasks that ask for one."""
    by_task: dict[str, list[Scored]] = {}
    for one in scored:
        by_task.setdefault(one.task, []).append(one)
    asked = [group for task, group in by_task.items() if task in kernels]
    return Scores(
        name,
        len(by_task),
        sum(map(len, by_task.values())),
        {
            (stars, k): _passes(list(by_task.values()), stars, k)
            for stars in range(1, MAX_STARS + 1)
            for k in ks
        },
        {p: fmean(_fast(group, p) for group in asked) if asked else None for p in SPEEDS},
    )


def by_track(scored: Sequence[Scored], ks: Sequence[int], kernels: set[str]) -> list[Scores]:
    """The scores of each track, and of all tracks together."""
    tracks = sorted({_track(one) for one in scored}, key=_number)
    groups = [
        scores(track, [one for one in scored if _track(one) == track], ks, kernels)
        for track in tracks
    ]
    return [*groups, scores("all", scored, ks, kernels)] if len(groups) > 1 else groups


def _passes(groups: Sequence[Sequence[Scored]], stars: int, k: int) -> float | None:
    if not groups or min(map(len, groups)) < k:
        return None
    return fmean(pass_at(k, len(group), _right(group, stars)) for group in groups)


def _right(group: Sequence[Scored], stars: int) -> int:
    return sum(one.solved and one.stars >= stars for one in group)


def _fast(group: Sequence[Scored], p: float) -> float:
    return fmean(bool(one.stars and one.speed and one.speed >= p) for one in group)


def _track(one: Scored) -> str:
    return one.task.partition("/")[0]


def _number(track: str) -> int:
    return int(track.partition("_")[0])


RIGHT = "three stars, no finding"


def results_page(
    rows: Sequence[Mapping[str, Any]], scores: Sequence[Scores], ks: Sequence[int]
) -> str:
    """A page: pass@k and fast_p by track, stars by kata, and the findings with their counts."""
    about = f"{len(rows)} samples of {len({row[TASK] for row in rows})} katas."
    seeds = sorted({row["seed"] for row in rows if "seed" in row})
    judged = f"Hidden cases of seed {', '.join(map(str, seeds))}." if seeds else ""
    tables = [_tracks(scores, ks), _katas(rows), _checks(rows), _findings(rows)]
    return page("Results of kata grade", filter(None, (about, judged)), tables)


def _tracks(scores: Sequence[Scores], ks: Sequence[int]) -> HtmlTable:
    shown = [k for k in ks if any(each.passes[1, k] is not None for each in scores)]
    columns = [(stars, k) for stars in range(1, MAX_STARS + 1) for k in shown]
    headings = [f"{'★' * stars} pass@{k}" for stars, k in columns]
    rows = [
        (
            each.name,
            _page_number(each.tasks),
            _page_number(each.samples),
            *(_part(each.passes[column]) for column in columns),
            *(_part(each.fast[p]) for p in SPEEDS),
        )
        for each in scores
    ]
    fast = [f"fast_{p:g}" for p in SPEEDS]
    caption = (
        "pass@k: the probability that at least one of k samples earns that many stars. fast_p: the "
        "fraction that is right and at least p times as fast as the solution."
    )
    return HtmlTable("Scores", caption, ("track", "katas", "samples", *headings, *fast), rows)


def _katas(rows: Sequence[Mapping[str, Any]]) -> HtmlTable:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[TASK], []).append(row)
    told = []
    for kata, group in groups.items():
        stars = Counter(row["stars"] for row in group)
        finding, count = Counter(map(_finding, group)).most_common(1)[0]
        counts = (_page_number(stars[n]) for n in range(MAX_STARS + 1))
        mean = fmean(row["reward"] for row in group)
        told.append((kata, _page_number(len(group)), *counts, _part(mean), f"{count} × {finding}"))
    signs = ["☆", *("★" * n for n in range(1, MAX_STARS + 1))]
    headings = ("kata", "samples", *signs, "reward", "most often")
    return HtmlTable("Katas", "The number of samples with each number of stars.", headings, told)


def _checks(rows: Sequence[Mapping[str, Any]]) -> HtmlTable:
    """The number of samples by the check that they failed."""
    counts = Counter((row.get("finding") or {}).get("check") or RIGHT for row in rows)
    told = [
        (check, _page_number(count), _part(count / len(rows))) for check, count in _most(counts)
    ]
    return HtmlTable(
        "Where samples end", "The check that each sample failed, if any.", ("check", "", ""), told
    )


def _findings(rows: Sequence[Mapping[str, Any]]) -> HtmlTable:
    counts = Counter(_finding(row) for row in rows)
    told = [(finding, _page_number(count)) for finding, count in _most(counts)]
    return HtmlTable("Findings", "The most common first.", ("finding", "samples"), told)


def _finding(row: Mapping[str, Any]) -> str:
    finding = row.get("finding")
    return f"{finding['check']}: {finding['phrase']}" if finding else RIGHT


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return counts.most_common()


def _page_number(count: int) -> Cell:
    return Cell(str(count), "number")


def _part(number: float | None) -> Cell:
    return Cell("-" if number is None else f"{number:.3f}", "number")


# ---- a baseline ----

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
