"""Bits that are used twice show at the distance of the two; others don't."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from grader.checks.random_statistics import (
    ErrorBudget,
    RandomResult,
    repeated_between,
    repeated_within,
)

SHAPE, KEPT = (96, 128), 0.75
BUDGET = ErrorBudget(1)
RNG = np.random.default_rng(0)


def throws(kept: np.ndarray, chance: float | np.ndarray = KEPT) -> RandomResult:
    """What is 1 where it is kept, and 0 elsewhere."""
    zero = np.zeros(kept.shape)
    chances = np.broadcast_to(np.asarray(chance), kept.shape)
    return RandomResult("r", kept.astype(np.float64), zero, zero + 1, chances, (zero, zero))


def drawn(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return RNG.random(shape) < KEPT


@pytest.mark.parametrize("shape", [SHAPE, (1000,), (3, 40, 50), (1, 1)])
def test_nothing_repeats_where_all_bits_are_their_own(shape: tuple[int, ...]) -> None:
    one, other = throws(drawn(shape)), throws(drawn(shape))
    assert repeated_within(one, BUDGET) is None
    assert repeated_between(one, other, BUDGET) is None


def test_blocks_that_are_alike() -> None:
    again = repeated_within(throws(np.tile(drawn((32, 64)), (3, 2))), BUDGET)
    assert again
    assert (abs(again.rows), abs(again.columns)) in ((32, 0), (0, 64))
    assert again.agree == 1
    assert again.expected == KEPT**2 + (1 - KEPT) ** 2


def test_two_of_many_blocks_that_are_alike() -> None:
    kept = drawn((128, 128))
    kept[96:, 64:] = kept[32:64, :64]
    again = repeated_within(throws(kept), BUDGET)
    assert again
    assert (again.rows, again.columns) == (64, 64)


def test_rows_and_columns_that_are_alike() -> None:
    rows = repeated_within(throws(np.tile(drawn((1, 128)), (96, 1))), BUDGET)
    columns = repeated_within(throws(np.tile(drawn((96, 1)), (1, 128))), BUDGET)
    assert rows
    assert columns
    assert (rows.rows, rows.columns) == (1, 0)
    assert (columns.rows, columns.columns) == (0, 1)


@pytest.mark.parametrize("shift", [(0, 0), (32, 0), (-32, 0), (16, -64), (0, 5)])
def test_bits_of_another_run_at_another_place(shift: tuple[int, int]) -> None:
    kept = drawn()
    moved = np.roll(kept, shift, axis=(0, 1))
    again = repeated_between(throws(kept), throws(moved), BUDGET)
    assert again
    assert (again.rows, again.columns) == shift
    assert again.agree == 1


def test_what_is_always_the_opposite_is_no_chance_either() -> None:
    kept = RNG.random(SHAPE) < 0.5
    again = repeated_between(throws(kept, 0.5), throws(~kept, 0.5), BUDGET)
    assert again
    assert again.agree == 0


def test_elements_that_tell_nothing_count_for_nothing() -> None:
    certain = dataclasses.replace(throws(np.ones(SHAPE, bool)), chance=np.ones(SHAPE))
    assert repeated_within(certain, BUDGET) is None


@pytest.mark.parametrize("chance", ["even", "any"])
def test_chances_may_differ_from_element_to_element(chance: str) -> None:
    chances = np.full(SHAPE, 0.5) if chance == "even" else RNG.random(SHAPE)
    dice = RNG.random((32, 128))
    own = throws(RNG.random(SHAPE) < chances, chances)
    alike = throws(np.tile(dice, (3, 1)) < chances, chances)
    assert repeated_within(own, BUDGET) is None
    again = repeated_within(alike, BUDGET)
    assert again
    assert (again.rows, again.columns) == (32, 0)
