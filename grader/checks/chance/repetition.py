"""Whether the same bits were used twice: at another place of a result, or under another seed.

Elements drawn by bits of their own are independent, so the products of two elements' excesses, some
rows and columns apart, sum up to about 0. All distances are tried at once, by a Fourier transform:
a block that is drawn like its neighbour shows at the distance of one block, a row like the row
before at a distance of one row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grader.checks.chance.bounds import Budget
from grader.checks.chance.throws import Throws
from grader.checks.compare import Floats


@dataclass(frozen=True, slots=True)
class Again:
    """The bits of some elements are those of others, so many rows and columns further.

    `agree` is the part of those pairs of elements that came out alike, `expected` the part that
    would by chance; `all_alike` if every element that can be compared did.
    """

    rows: int
    columns: int
    agree: float
    expected: float


def repeated_within(throws: Throws, budget: Budget, centred: bool = False) -> Again | None:
    """The distance at which a result repeats itself most; None where it doesn't.

    Of one with the wrong share of high elements, all pairs are alike more often than they should
    be. `centred` takes that share as given.
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


def repeated_between(one: Throws, other: Throws, budget: Budget) -> Again | None:
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


def _found(one: Throws, other: Throws, sums: Floats, bound: float) -> Again | None:
    at = int(np.argmax(np.abs(sums)))
    if abs(sums.flat[at]) <= bound:
        return None
    size = _flat(one.excess).shape
    rows, columns = (int(n) for n in np.unravel_index(at, sums.shape))
    rows = rows if rows < size[0] else rows - (2 * size[0] - 1)
    columns -= size[1] - 1
    return _agreement(one, other, rows, columns)


def _agreement(one: Throws, other: Throws, rows: int, columns: int) -> Again:
    """How often elements of `one` are like those of `other`, so many rows and columns further."""
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
