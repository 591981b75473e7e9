"""Compares a result with its expected values: tolerance, wrong elements and blocks."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pallascope.model import Array, Mode, Operand, Roundings
from pallascope.tools.arrays import in_float64

Floats = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Index = tuple[int, ...]

#: Half the distance from 1 to the next number: the largest relative error of one rounding.
ROUNDOFF = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11, "float64": 2.0**-53}
#: The dtypes of results whose errors are also judged on average.
NARROW = ("bfloat16", "float16")
#: The root mean square of one rounding's relative error, in units of ROUNDOFF: numbers between two
#: powers of two are spread evenly on a logarithmic scale.
TYPICAL = (8 * math.log(2)) ** -0.5
SPREAD = 1.05  # the largest sample that right kernels show, relative to its expectation
SWAYS = 3  # each intermediate value is rounded, not the inputs alone
SUM_FACTOR = 16  # for the order of a sum, and for exp or tanh being a few bits off


@dataclass(frozen=True, slots=True)
class Sum:
    """The sums behind a result: the terms of the longest one, and the operands' dtype.

    `sway` is how far the result moves, at most, if the inputs move by a rounding to float32.
    """

    terms: int = 1
    operands: str = "float32"
    sway: float = 0.0


def tolerance(
    expected: Floats, dtype: str, roundings: Roundings, behind: Sum, mode: Mode = Mode.STRICT
) -> Floats:
    """The largest error that rounding explains, for each element. Zero for integers and bools.

    It has four terms. The result was rounded to its own dtype as often as the key says: relative to
    each element. The sum behind it was accumulated in float32: its error grows with the square root
    of the number of terms, relative to the largest element, since terms may cancel. The operands
    were rounded as often as the key says, which costs at most a rounding of the largest element.
    And intermediate values were rounded to float32: a few times the movement of the result if the
    inputs are. Accumulating in bfloat16 exceeds this by far, as it should.
    """
    if dtype not in ROUNDOFF:
        return np.zeros_like(expected)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max(initial=0.0))
    accumulated = SUM_FACTOR * ROUNDOFF["float32"] * behind.terms**0.5 * scale
    accumulated += SWAYS * behind.sway
    accumulated += roundings.operands * ROUNDOFF[behind.operands] * scale
    if mode is Mode.COMPILED and behind.terms > 1:
        # At default precision the MXU may round float32 operands to bfloat16.
        accumulated += ROUNDOFF["bfloat16"] * scale
    return roundings.results * ROUNDOFF[dtype] * np.abs(np.nan_to_num(expected)) + accumulated


_NEGLIGIBLE = 2.0**-40


def average_error(got: Floats, exact: Floats, rows: Floats, dtype: str) -> float:
    """The root mean square of the errors, relative to each row's, in roundings to `dtype`.

    One rounding has an average error of 1, and N independent ones of √N. `rows` has the number of
    the row of each element. Rows of zeros, those that aren't finite, and those whose numbers are
    far smaller than the largest row's are left out: exp makes numbers near the smallest of a dtype.
    """
    numbers = np.unique(rows, return_inverse=True)[1]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        errors, sizes = (np.bincount(numbers, values**2) for values in (got - exact, exact))
        relative = errors / sizes
        finite = np.isfinite(relative)
        relative = relative[finite & (sizes >= _NEGLIGIBLE**2 * sizes[finite].max(initial=0.0))]
    if not relative.size:
        return 0.0
    return float(relative.mean() ** 0.5) / (TYPICAL * ROUNDOFF[dtype])


def explained_error(roundings: Roundings) -> float:
    """The largest `average_error` of right results: a rounding's grows with the square root."""
    return SPREAD * (roundings.results + roundings.operands) ** 0.5


def coarsest(dtypes: Iterable[str]) -> str:
    """The floating dtype with the largest roundoff; float32 where there is none."""
    floating = [dtype for dtype in dtypes if dtype in ROUNDOFF]
    return max(floating, key=lambda dtype: ROUNDOFF[dtype], default="float32")


@dataclass(frozen=True)
class Comparison:
    """A result, its expected value and the output operand that it was written through.

    `block` is the block's size along each dimension of the result (1 where squeezed); the whole
    array where the result did not come straight from a kernel's output.
    """

    name: str
    dtype: str
    actual: Floats
    expected: Floats
    allowed: Floats
    block: Index

    @functools.cached_property
    def wrong(self) -> Mask:
        """Which elements are wrong."""
        with np.errstate(invalid="ignore"):
            error = np.abs(self.actual - self.expected)
            near = error <= self.allowed
        same = (self.actual == self.expected) | (np.isnan(self.actual) & np.isnan(self.expected))
        return ~(near | same)

    @property
    def grid(self) -> Index:
        """How many blocks the result has along each dimension."""
        shape = self.actual.shape
        return tuple(-(-size // block) for size, block in zip(shape, self.block, strict=True))

    def part(self, index: Index) -> tuple[slice, ...]:
        """The elements of one block."""
        return tuple(slice(i * b, (i + 1) * b) for i, b in zip(index, self.block, strict=True))

    def indices(self) -> list[Index]:
        """Every block's index, in row-major order."""
        return list(itertools.product(*map(range, self.grid)))

    @functools.cached_property
    def wrong_blocks(self) -> tuple[Index, ...]:
        """The indices of the blocks that hold a wrong element."""
        return tuple(index for index in self.indices() if self.wrong[self.part(index)].any())

    def worst(self) -> Index:
        """The element that is furthest off; a NaN or infinity if there is one."""
        with np.errstate(invalid="ignore"):
            error = np.abs(self.actual - self.expected)
        error = np.where(np.isfinite(error), error, np.inf)
        position = int(np.argmax(np.where(self.wrong, error, -1.0)))
        return tuple(int(i) for i in np.unravel_index(position, self.actual.shape))

    def block_of(self, element: Index) -> Index:
        return tuple(i // b for i, b in zip(element, self.block, strict=True))

    def close(self, got: Floats, wanted: Floats, allowed: Floats) -> bool:
        """Whether `got` equals `wanted` up to rounding."""
        if got.shape != wanted.shape:
            return False
        with np.errstate(invalid="ignore"):
            return bool((np.abs(got - wanted) <= allowed).all())

    def explained_by(self, values: Floats, rounding: Floats) -> bool:
        """Whether the result is close to these wrong values, and the expected ones aren't.

        `rounding` is the distance that rounding of `values` explains. The right result may be as
        close, if a mistake changes nothing in it; then the mistake explains nothing.
        """
        slack = 2 * (self.allowed + rounding)
        return self.close(self.actual, values, slack) and not self.close(
            self.expected, values, slack
        )


def compare(
    name: str,
    actual: Array,
    expected: Array,
    operand: Operand | None,
    roundings: Roundings,
    behind: Sum,
    mode: Mode,
) -> Comparison:
    """Compare one result with its expected values; rung `contract` made sure of its shape."""
    wanted = in_float64(expected)
    return Comparison(
        name=operand.name if operand else name,
        dtype=actual.dtype,
        actual=in_float64(actual),
        expected=wanted,
        allowed=tolerance(wanted, actual.dtype, roundings, behind, mode),
        block=_block(actual, operand),
    )


def _block(actual: Array, operand: Operand | None) -> Index:
    if operand is None:
        return tuple(max(size, 1) for size in actual.shape)
    return tuple(1 if size is None else max(size, 1) for size in operand.block)
