"""How far chance may carry a sum before it is no longer believed to be chance.

All sums that are looked at are of terms that are 0 on average, whatever the terms before them were:
hits less their chance, or products of two such. Bernstein's inequality, which holds for
such sums without any assumption about their distribution (Freedman 1975), bounds how often a sum
of terms of at most `largest` and of a variance of `variance` in all lies further than t from 0:

    P(|sum| >= t)  <=  2 exp(-t² / (2 (variance + largest t / 3)))

The bound is set equal to what one comparison may cost, and solved for t. The budget for all of a
session's comparisons is one false alarm in a million sessions; it is divided evenly, so no number
of comparisons has to be independent of another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from grader.exercise.keys import MOST_CASES

#: How many sessions there are to one in which a right kernel of a kata is refused, at least.
SESSIONS = 10**6
#: What is asked of each random result of a case: share, odds, repetition, another seed.
QUESTIONS = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """What one question about one of so many random results of a case may cost."""

    results: int

    def deviation(self, variance: float, largest: float, comparisons: int) -> float:
        """How far from 0 a sum may lie that is one of so many compared for one question."""
        chance = 1 / (SESSIONS * MOST_CASES * QUESTIONS * self.results * comparisons)
        return deviation(variance, largest, chance)


def deviation(variance: float, largest: float, chance: float) -> float:
    """How far from 0 a sum lies with at most this `chance`: Bernstein's bound, solved for t."""
    logarithm = math.log(2 / chance)
    linear = largest * logarithm / 3
    return linear + float(np.sqrt(linear**2 + 2 * variance * logarithm))
