"""Two launches timed in turns, so that whatever slows the GPU down slows both.

Clocks are left as they are: what counts is the ratio of two medians of one run. A host can't time
one launch, so a sample is as many, enqueued one after the other, as take a millisecond.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from grader.model import Times

#: Seconds that so many launches take together.
Batch = Callable[[int], float]

ROUNDS, FEWEST = 20, 3
BUDGET = 30.0  # seconds for all samples of both: of slow launches there are fewer
SAMPLE = 1e-3  # seconds, at least
MOST = 1 << 14  # launches in a sample


def interleaved(
    own: Batch, par: Batch, rounds: int = ROUNDS, sample: float = SAMPLE
) -> tuple[Times, Times]:
    """Both launches' times, of as many samples each; who begins changes from round to round.

    At most so many rounds, and fewer where they would take longer than BUDGET.
    """
    sides = (own, par)
    launches = [enough(side, sample) for side in sides]
    one_round = sum(side(number) for side, number in zip(sides, launches, strict=True))
    rounds = min(rounds, max(FEWEST, int(BUDGET / one_round) if one_round else rounds))
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            found[which].append(sides[which](launches[which]) / launches[which])
    return times(found[0]), times(found[1])


def enough(batch: Batch, sample: float = SAMPLE) -> int:
    """How many launches take `sample` seconds: by doubling, which warms up too."""
    batch(1)
    number = 1
    while number < MOST and batch(number) < sample:
        number *= 2
    return number


def times(seconds: Sequence[float]) -> Times:
    """The median of samples, and their ends."""
    return Times(statistics.median(seconds), min(seconds), max(seconds), len(seconds))
