"""Statistics of random results: bounds, frequencies, repetition.

All sums have terms with a conditional mean of 0: hits minus their probability, or products of two
such. Bernstein's inequality, which holds for such sums without any assumption about their
distribution (Freedman 1975), bounds the probability that a sum
of terms of at most `largest` and of a variance of `variance` in all lies further than t from 0:

    P(|sum| >= t)  <=  2 exp(-t² / (2 (variance + largest t / 3)))

The bound is set equal to one comparison's share of the error budget, and solved for t. The budget
is one false alarm in a million sessions, divided evenly among all comparisons, which need not be
independent.

Repeated bits, within a result or under another seed, are found by correlation. Independent elements
have products of excesses that sum to about 0 at any distance of rows and columns. A Fourier
transform tests all distances at once.

At production size, a few blocks are compared with those of the solution, by the means of their
elements alone.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from grader.exercise.answer_key import MAX_CASES
from pallascope.checks.compare import (
    ROUNDOFF,
    SUM_FACTOR,
    Floats,
    Mask,
)
from pallascope.checks.phrasing import number
from pallascope.model import Array, Outcomes
from pallascope.tools.arrays import in_float64

#: In at most one of this many sessions, a right kernel of a kata is refused.
SESSIONS = 10**6
#: The questions about each random result of a case: share, odds, repetition, another seed.
QUESTIONS = 4


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """The chance of a false alarm that one question about one random result of a case may take."""

    results: int

    def deviation(self, variance: float, largest: float, comparisons: int) -> float:
        """How far from 0 a sum may lie, if one question compares that many sums."""
        chance = 1 / (SESSIONS * MAX_CASES * QUESTIONS * self.results * comparisons)
        return deviation(variance, largest, chance)


def deviation(variance: float, largest: float, chance: float) -> float:
    """How far from 0 a sum lies with at most this `chance`: Bernstein's bound, solved for t."""
    logarithm = math.log(2 / chance)
    linear = largest * logarithm / 3
    return linear + float(np.sqrt(linear**2 + 2 * variance * logarithm))


@dataclass(frozen=True)
class RandomResult:
    """One result and its outcomes, all of the result's shape.

    Each outcome may be off by `allowed`, elementwise.
    """

    name: str
    actual: Floats
    low: Floats
    high: Floats
    chance: Floats
    allowed: tuple[Floats, Floats]

    @classmethod
    def of(cls, name: str, actual: Array, outcomes: Outcomes, roundings: int) -> RandomResult:
        """A result, which may have been rounded to its dtype `roundings` times since it was drawn.

        Its outcomes may be a few roundings of float32 off; without any, all is exact.
        """
        low, high, chance = map(in_float64, (outcomes.low, outcomes.high, outcomes.chance))
        unit = roundings * ROUNDOFF.get(actual.dtype, 0.0)
        unit += SUM_FACTOR * ROUNDOFF["float32"] if roundings else 0.0
        allowed = unit * np.abs(low), unit * np.abs(high)
        return cls(name, in_float64(actual), low, high, chance, allowed)

    @functools.cached_property
    def is_low(self) -> Mask:
        return self._near(self.low, self.allowed[0]) & (self.chance < 1)

    @functools.cached_property
    def is_high(self) -> Mask:
        return self._near(self.high, self.allowed[1]) & (self.chance > 0)

    @functools.cached_property
    def neither(self) -> Mask:
        """The elements that equal neither outcome."""
        return ~(self.is_low | self.is_high)

    @functools.cached_property
    def open(self) -> Mask:
        """The elements that tell how they were drawn, because their outcomes differ."""
        apart = np.abs(self.high - self.low) > self.allowed[0] + self.allowed[1]
        return apart & (self.chance > 0) & (self.chance < 1)

    @functools.cached_property
    def excess(self) -> Floats:
        """1 or 0, as an element is high or not, minus its chance; 0 where it isn't `open`."""
        return np.where(self.open, self.is_high - self.chance, 0.0)

    @functools.cached_property
    def variance(self) -> Floats:
        """Of each element's excess."""
        return np.where(self.open, self.chance * (1 - self.chance), 0.0)

    @property
    def largest(self) -> float:
        """The largest that an excess may be."""
        chances = self.chance[self.open]
        return float(np.maximum(chances, 1 - chances).max(initial=0.0))

    def _near(self, outcome: Floats, allowed: Floats) -> Mask:
        with np.errstate(invalid="ignore"):
            return (np.abs(self.actual - outcome) <= allowed) | (self.actual == outcome)


BANDS = 8


@dataclass(frozen=True, slots=True)
class Band:
    """Elements whose chance of being high lies from `first` to `last`: their number, the part that
    is high, the part that should be, and the largest difference that chance explains."""

    first: float
    last: float
    elements: int
    found: float
    wanted: float
    explained: float

    @property
    def wrong(self) -> bool:
        return abs(self.found - self.wanted) > self.explained


def off_by_chance(throws: RandomResult, budget: ErrorBudget) -> Band:
    """All elements as one band."""
    return _band(throws, throws.open, 0.0, 1.0, budget, 1)


def bands(throws: RandomResult, budget: ErrorBudget) -> tuple[Band, ...]:
    """The elements by their chance, in bands of equal width; empty ones are left out."""
    edges = np.linspace(0, 1, BANDS + 1)
    found = []
    for first, last in itertools.pairwise(edges):
        within = throws.open & (throws.chance >= first) & (throws.chance < last)
        if within.any():
            found.append(_band(throws, within, float(first), float(last), budget, BANDS))
    return tuple(found)


def _band(
    throws: RandomResult,
    within: Mask,
    first: float,
    last: float,
    budget: ErrorBudget,
    comparisons: int,
) -> Band:
    elements = int(within.sum())
    count = max(elements, 1)
    variance = float(throws.variance[within].sum())
    explained = budget.deviation(variance, throws.largest, comparisons) / count
    found = float(throws.is_high[within].sum()) / count
    wanted = float(throws.chance[within].sum()) / count
    return Band(first, last, elements, found, wanted, explained)


@dataclass(frozen=True, slots=True)
class Again:
    """Some elements repeat the bits of others, `rows` and `columns` further on.

    `agree` is the part of those pairs of elements that came out alike, `expected` the part that
    would by chance; `all_alike` if every element that can be compared did.
    """

    rows: int
    columns: int
    agree: float
    expected: float


def repeated_within(
    throws: RandomResult, budget: ErrorBudget, centred: bool = False
) -> Again | None:
    """The distance at which a result repeats itself most; None where it doesn't.

    If the share of high elements is wrong, all pairs are alike more often than they should be.
    `centred` takes that share as given.
    """
    excess, variance = _flat(throws.excess), _flat(throws.variance)
    if centred and throws.open.any():
        excess = np.where(_flat(throws.open), excess - excess[_flat(throws.open)].mean(), 0.0)
    sums = _sums_of_products(excess, excess)
    rows, columns = excess.shape
    # Half of all distances, and not that of 0: the others are the same with the two swapped.
    sums[0, :columns] = 0
    bound = budget.deviation(
        float(variance.sum()) * throws.largest**2, throws.largest**2, max(excess.size * 2, 1)
    )
    return _found(throws, throws, sums[:rows], bound)


def repeated_between(one: RandomResult, other: RandomResult, budget: ErrorBudget) -> Again | None:
    """The distance at which one result repeats another most, which may be 0; None for none."""
    sums = _sums_of_products(_flat(other.excess), _flat(one.excess))
    variance = _flat(one.variance).sum() * other.largest**2
    bound = budget.deviation(
        float(variance), one.largest * other.largest, max(one.excess.size * 4, 1)
    )
    return _found(one, other, sums, bound)


def _sums_of_products(one: Floats, other: Floats) -> Floats:
    """[r, c + columns - 1]: the sum of one[i + r, j + c] · other[i, j], for r below the rows; then,
    from the last, for negative r."""
    shape = 2 * one.shape[0], 2 * one.shape[1]
    transformed = np.fft.rfft2(one, shape) * np.conj(np.fft.rfft2(other, shape))
    sums = np.fft.irfft2(transformed, shape)
    sums = np.delete(sums, [one.shape[0]], axis=0)
    return np.roll(sums, one.shape[1] - 1, axis=1)[:, : 2 * one.shape[1] - 1]


def _found(one: RandomResult, other: RandomResult, sums: Floats, bound: float) -> Again | None:
    at = int(np.argmax(np.abs(sums)))
    if abs(sums.flat[at]) <= bound:
        return None
    size = _flat(one.excess).shape
    rows, columns = (int(n) for n in np.unravel_index(at, sums.shape))
    rows = rows if rows < size[0] else rows - (2 * size[0] - 1)
    columns -= size[1] - 1
    return _agreement(one, other, rows, columns)


def _agreement(one: RandomResult, other: RandomResult, rows: int, columns: int) -> Again:
    """How often elements of `one` are like those of `other`, that many rows and columns further."""
    here = _overlap(-rows), _overlap(-columns)
    there = _overlap(rows), _overlap(columns)
    both = _flat(one.open)[here] & _flat(other.open)[there]
    first, second = _flat(one.is_high)[here][both], _flat(other.is_high)[there][both]
    p, q = _flat(one.chance)[here][both], _flat(other.chance)[there][both]
    agree = float((first == second).mean()) if first.size else 0.0
    expected = float((p * q + (1 - p) * (1 - q)).mean()) if first.size else 0.0
    return Again(rows, columns, agree, expected)


def _overlap(shift: int) -> slice:
    return slice(shift, None) if shift > 0 else slice(None, shift or None)


def _flat(values: np.ndarray) -> np.ndarray:
    """As rows and columns, all dimensions but the last one being rows."""
    return values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)


#: A mean's distance from its expected value, in standard deviations, that isn't chance.
_MOST_DEVIATIONS = 6
#: The smallest difference that counts, as a part of the mean of the absolute values.
_LEAST_DIFFERENCE = 2.0**-12
_MEANS = (
    ("mean", lambda values: values),
    ("mean of the absolute values", np.abs),
    ("mean of the squares", np.square),
)


def other_mean(got: Floats, wanted: Floats) -> str:
    """How two samples of the same random elements differ on average, in words; "" if they don't.

    Both are float64[N] of the same N elements, with other random bits.
    """
    for title, of in _MEANS:
        difference = of(got) - of(wanted)
        error = _MOST_DEVIATIONS * float(difference.std()) / math.sqrt(difference.size)
        least = _LEAST_DIFFERENCE * float(np.abs(of(wanted)).mean())
        if not abs(difference.mean()) <= max(error, least):
            mine, theirs = (number(of(values).mean()) for values in (got, wanted))
            return (
                f"the {title} of {difference.size:,} of them is {mine}, expected {theirs} "
                f"(up to ±{number(error)})"
            )
    return ""
