"""A random result read as throws of a die: each element is one of two outcomes, or neither."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from grader.checks.compare import ROUNDOFF, SUM_FACTOR, Floats, Mask
from grader.model import Array, Outcomes
from grader.tools.arrays import in_float64


@dataclass(frozen=True)
class Throws:
    """One result beside its outcomes, all of the result's shape.

    Each outcome may be off by `allowed`, elementwise.
    """

    name: str
    actual: Floats
    low: Floats
    high: Floats
    chance: Floats
    allowed: tuple[Floats, Floats]

    @classmethod
    def of(cls, name: str, actual: Array, outcomes: Outcomes, roundings: int) -> Throws:
        """A result, which may have been rounded to its dtype so often since it was drawn.

        And what led to that may be a few roundings of float32 off; without any, all is exact.
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
        """Which elements are nothing that could have been drawn."""
        return ~(self.is_low | self.is_high)

    @functools.cached_property
    def open(self) -> Mask:
        """Which elements tell how they were drawn: by the outcomes alone, whatever was drawn."""
        apart = np.abs(self.high - self.low) > self.allowed[0] + self.allowed[1]
        return apart & (self.chance > 0) & (self.chance < 1)

    @functools.cached_property
    def excess(self) -> Floats:
        """1 or 0, as an element is high or not, less its chance; 0 where it doesn't tell."""
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
