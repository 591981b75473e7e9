"""pass@k against its definition, and fast_p."""

from __future__ import annotations

import itertools
from statistics import fmean

import pytest

from grader.batch.scores import (
    Scored,
    by_track,
    pass_at,
    scores,
)


@pytest.mark.parametrize("k", range(1, 6))
@pytest.mark.parametrize("right", range(6))
def test_pass_at_k_is_the_share_of_all_choices_with_a_right_one(k: int, right: int) -> None:
    samples = [True] * right + [False] * (5 - right)
    chosen = list(itertools.combinations(samples, k))
    assert pass_at(k, 5, right) == pytest.approx(fmean(any(some) for some in chosen))


@pytest.mark.parametrize("k", [0, 6])
def test_more_than_there_are_cannot_be_estimated(k: int) -> None:
    with pytest.raises(ValueError, match="from 5 samples"):
        pass_at(k, 5, 1)


SCORED = (
    Scored("1_a/kata_01_x", 3, 1.0),
    Scored("1_a/kata_01_x", 2, 0.6),
    Scored("1_a/kata_02_y", 0, 2.0),
    Scored("1_a/kata_02_y", 1),
    Scored("10_b/kata_01_z", 3),
    Scored("2_c/kata_01_w", 0),
)


def test_tasks_weigh_alike_and_tracks_stand_in_order() -> None:
    found = by_track(SCORED, (1, 2), {"1_a/kata_01_x", "1_a/kata_02_y", "2_c/kata_01_w"})
    assert [one.name for one in found] == ["1_a", "2_c", "10_b", "all"]
    first, _, last, whole = found
    assert (first.tasks, first.samples, whole.samples) == (2, 4, 6)
    assert first.passes[1, 1] == pytest.approx(0.75)
    assert first.passes[2, 2] == pytest.approx(0.5)
    assert first.passes[3, 1] == pytest.approx(0.25)
    assert whole.passes[1, 2] is None
    assert first.fast == {0.5: 0.5, 0.8: 0.25, 1.0: 0.25}
    assert set(last.fast.values()) == {None}
    assert whole.fast[0.5] == pytest.approx(1 / 3)


def test_a_failed_sample_earns_no_stars() -> None:
    """Its results are right, and a TPU refuses it."""
    refused = Scored("1_a/kata_01_x", 1, solved=False)
    found = scores("1_a", [SCORED[0], refused], (1,), set())
    assert found.passes[1, 1] == found.passes[3, 1] == pytest.approx(0.5)


def test_of_one_track_there_is_one_line() -> None:
    assert [one.name for one in by_track(SCORED[:2], (1,), set())] == ["1_a"]
    assert scores("none", [], (1,), set()).passes[1, 1] is None
