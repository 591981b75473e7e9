"""How often elements are high, beside how often they should be: in all, and band by band."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from grader.checks.chance.bounds import Budget
from grader.checks.chance.throws import Throws
from grader.checks.compare import Mask

BANDS = 8


@dataclass(frozen=True, slots=True)
class Band:
    """Elements whose chance of being high lies from `first` to `last`: how many there are, which
    part of them is high, which part should be, and how far chance explains a difference."""

    first: float
    last: float
    elements: int
    found: float
    wanted: float
    explained: float

    @property
    def wrong(self) -> bool:
        return abs(self.found - self.wanted) > self.explained


def off_by_chance(throws: Throws, budget: Budget) -> Band:
    """All elements as one band."""
    return _band(throws, throws.open, 0.0, 1.0, budget, 1)


def bands(throws: Throws, budget: Budget) -> tuple[Band, ...]:
    """The elements by their chance, in bands of equal width; those that hold none are left out."""
    edges = np.linspace(0, 1, BANDS + 1)
    found = []
    for first, last in itertools.pairwise(edges):
        within = throws.open & (throws.chance >= first) & (throws.chance < last)
        if within.any():
            found.append(_band(throws, within, float(first), float(last), budget, BANDS))
    return tuple(found)


def _band(
    throws: Throws, within: Mask, first: float, last: float, budget: Budget, comparisons: int
) -> Band:
    elements = int(within.sum())
    count = max(elements, 1)
    variance = float(throws.variance[within].sum())
    explained = budget.deviation(variance, throws.largest, comparisons) / count
    found = float(throws.is_high[within].sum()) / count
    wanted = float(throws.chance[within].sum()) / count
    return Band(first, last, elements, found, wanted, explained)
