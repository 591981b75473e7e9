"""Solutions and known mistakes as samples, and what became of them."""

from __future__ import annotations

from typing import Any

import pytest

from grader.batch.samples import Sample, read
from grader.batch.scores import compared, samples_of
from grader.exercise.catalog import katas
from tests.batch.test_samples import line
from tests.support.repositories import ROOT

EVERY = {kata.id: kata for kata in katas(ROOT, "solutions")}
ADD = next(kata for kata in EVERY.values() if kata.name == "constant_add")


def row(check: str | None, stars: int, told: str | None, most: int = 0) -> dict[str, Any]:
    expected = {"least_stars": 0 if check else 3, "most_stars": most, "check": check}
    return {"expected": expected, "stars": stars, "finding": told and {"check": told}}


def test_a_baseline_is_a_file_of_samples() -> None:
    rows = list(samples_of(ADD))
    found = list(read((line(**each) for each in rows), EVERY))
    assert all(isinstance(one, Sample) and one.source for one in found)
    assert [each["expected"]["check"] for each in rows] == [
        None,
        *(mistake.caught.value for mistake in ADD.key.mistakes),
    ]
    assert rows[0]["completion"] == ADD.solution.read_text(encoding="utf-8")
    assert len({each["completion"] for each in rows}) == len(rows)


def test_every_exercise_has_one() -> None:
    for kata in EVERY.values():
        assert len(list(samples_of(kata))) == 1 + len(kata.key.mistakes)


def test_results_are_compared_with_what_was_expected() -> None:
    rows = [
        row(None, 3, None, most=3),
        row(None, 2, "cost", most=3),
        row("values", 0, "values"),
        row("values", 0, "runs"),
        row("values", 3, None),
        row("cost", 2, "cost", most=2),
        {"stars": 0, "finding": None},
    ]
    found = compared(rows)
    counts = [(each.check, each.count, each.stars, each.same) for each in found.by_check]
    assert counts == [("solution", 2, 1, 1), ("values", 3, 2, 1), ("cost", 1, 1, 1)]
    assert list(found.otherwise) == [rows[1], rows[4]]
    assert found.skipped == 0


def test_what_is_not_judged_here_is_left_out() -> None:
    """Without libtpu, neither solutions nor what only a compiler finds."""
    without = {"not_judged": "compiles: libtpu is not installed"}
    rows = [
        row(None, 1, None, most=3) | without,
        row("lowers", 1, None, most=1) | without,
        row("values", 0, "values"),
    ]
    found = compared(rows)
    assert [each.check for each in found.by_check] == ["values"]
    assert (found.skipped, found.otherwise) == (2, ())


def test_other_results_are_told() -> None:
    with pytest.raises(ValueError, match="none of the results"):
        compared([{"stars": 3}])
