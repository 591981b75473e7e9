"""The results of a batch as a page for a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from grader.batch.samples import TASK
from grader.batch.scores import SPEEDS, Scores
from grader.model import MOST_STARS
from grader.tools.pages import Cell, Table, page

RIGHT = "three stars, nothing to say"


def results_page(
    rows: Sequence[Mapping[str, Any]], scores: Sequence[Scores], ks: Sequence[int]
) -> str:
    """pass@k and fast_p by track, stars by kata, and what was found how often."""
    about = f"{len(rows)} samples of {len({row[TASK] for row in rows})} katas."
    seeds = sorted({row["seed"] for row in rows if "seed" in row})
    judged = f"Hidden cases of seed {', '.join(map(str, seeds))}." if seeds else ""
    tables = [_tracks(scores, ks), _katas(rows), _checks(rows), _findings(rows)]
    return page("Results of kata grade", filter(None, (about, judged)), tables)


def _tracks(scores: Sequence[Scores], ks: Sequence[int]) -> Table:
    shown = [k for k in ks if any(each.passes[1, k] is not None for each in scores)]
    columns = [(stars, k) for stars in range(1, MOST_STARS + 1) for k in shown]
    headings = [f"{'★' * stars} pass@{k}" for stars, k in columns]
    rows = [
        (
            each.name,
            _number(each.tasks),
            _number(each.samples),
            *(_part(each.passes[column]) for column in columns),
            *(_part(each.fast[p]) for p in SPEEDS),
        )
        for each in scores
    ]
    fast = [f"fast_{p:g}" for p in SPEEDS]
    caption = (
        "pass@k: the chance that of k samples at least one has so many stars. fast_p: the part "
        "that is right and at least p times as fast as the solution."
    )
    return Table("Scores", caption, ("track", "katas", "samples", *headings, *fast), rows)


def _katas(rows: Sequence[Mapping[str, Any]]) -> Table:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[TASK], []).append(row)
    told = []
    for kata, group in groups.items():
        stars = Counter(row["stars"] for row in group)
        finding, count = Counter(map(_finding, group)).most_common(1)[0]
        counts = (_number(stars[n]) for n in range(MOST_STARS + 1))
        mean = fmean(row["reward"] for row in group)
        told.append((kata, _number(len(group)), *counts, _part(mean), f"{count} × {finding}"))
    signs = ["☆", *("★" * n for n in range(1, MOST_STARS + 1))]
    headings = ("kata", "samples", *signs, "reward", "most often")
    return Table("Katas", "How many samples have how many stars.", headings, told)


def _checks(rows: Sequence[Mapping[str, Any]]) -> Table:
    """How far samples came: the check that each ended at."""
    counts = Counter((row.get("finding") or {}).get("check") or RIGHT for row in rows)
    told = [(check, _number(count), _part(count / len(rows))) for check, count in _most(counts)]
    return Table("Where samples end", "The check that each was told of.", ("check", "", ""), told)


def _findings(rows: Sequence[Mapping[str, Any]]) -> Table:
    counts = Counter(_finding(row) for row in rows)
    told = [(finding, _number(count)) for finding, count in _most(counts)]
    return Table("Findings", "The commonest first.", ("finding", "samples"), told)


def _finding(row: Mapping[str, Any]) -> str:
    finding = row.get("finding")
    return f"{finding['check']}: {finding['phrase']}" if finding else RIGHT


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return counts.most_common()


def _number(count: int) -> Cell:
    return Cell(str(count), "number")


def _part(number: float | None) -> Cell:
    return Cell("-" if number is None else f"{number:.3f}", "number")
