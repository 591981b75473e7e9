"""Numbers that are nearly right: another formula, or rounded too early."""

from __future__ import annotations

import numpy as np

from grader.checks.compare import ROUNDOFF, Comparison
from grader.checks.diagnoses.suspect import Diagnosis, Suspect, rms, wrong_values


def another_formula(suspect: Suspect) -> Diagnosis | None:
    """Small errors that follow the value, as those of rounding do not."""
    result = suspect.result
    if not np.isfinite(result.actual).all() or not np.isfinite(result.expected).all():
        return None
    scale, error = rms(result.expected), rms(result.actual - result.expected)
    if not 0 < error <= 2**-5 * scale or not _by_formula(suspect):
        return None
    return Diagnosis(
        "nearly right: another formula?",
        "The errors are small, and elements with the same value are off by the same amount, as "
        "they rarely are after one rounding. So it is a formula that differs a little: an "
        "approximation in place of the exact function, or the other way round, a constant that is "
        "a bit off, or a state that is rounded again in every turn of a loop.",
        vague=True,
    )


#: Groups of wrong elements with like values, wide enough for rounding errors to cancel; so many
#: elements at least in all; and the part of their errors that the groups' means must explain.
_GROUPS, _FEWEST, _EXPLAINED = 16, 256, 0.5


def _by_formula(suspect: Suspect) -> bool:
    """Whether the error is a function of the value: rounding errors cancel in a group of like
    values, those of another formula do not."""
    result = suspect.result
    got, wanted, _ = wrong_values(result)
    error = (got - wanted)[np.argsort(wanted)]
    if error.size < _FEWEST:
        return False
    groups = [float(group.mean()) for group in np.array_split(error, _GROUPS)]
    total = rms(error)
    return total > 0 and rms(np.array(groups)) ** 2 > _EXPLAINED * total**2


#: Rounding errors are about alike everywhere: their mean is no smaller part of their root mean
#: square. A few large ones among many small are no rounding errors.
_EVEN = 0.3


#: Which part of the rows and columns that elements anywhere would meet those of rounding meet, at
#: least. And an error that no rounding makes, as a part of the largest element.
_SCATTERED, _WILD = 0.8, 2**-3


def _everywhere(result: Comparison) -> bool:
    """Whether errors are spread like those of rounding: over most rows and columns, none of them
    of the size of the values, and none where the right value is zero in a whole row."""
    error, wanted = np.abs(result.actual - result.expected), np.abs(result.expected)
    if (error > _WILD * wanted.max(initial=0.0)).any():
        return False
    if wanted.ndim < 2:
        return True
    rows = [values.reshape(-1, wanted.shape[-1]) for values in (error, wanted)]
    if (rows[0].any(1) & ~rows[1].any(1)).any():
        return False
    return all(_scattered(result, axis) for axis in (0, 1))


def _scattered(result: Comparison, axis: int) -> bool:
    """Whether the wrong elements of the wrong blocks meet about as many columns (`axis` 0) or rows
    (1) as so many elements do that are anywhere."""
    touched = expected = 0.0
    for index in result.wrong_blocks:
        wrong = result.wrong[result.part(index)]
        lines = wrong.reshape(-1, wrong.shape[-1]).any(axis)
        touched += lines.sum()
        expected += lines.size * (1 - (1 - 1 / lines.size) ** int(wrong.sum()))
    return touched >= _SCATTERED * expected


def rounded_too_early(suspect: Suspect) -> Diagnosis | None:
    """Errors of bfloat16 size in a result that should have float32's: rounded on the way."""
    result = suspect.result
    if result.dtype not in ROUNDOFF or not np.isfinite(result.actual).all():
        return None
    if not np.isfinite(result.expected).all():
        return None
    scale, error = rms(result.expected), rms(result.actual - result.expected)
    # One rounding to bfloat16 is off by about 2**-10 of a value; sums add a little to that.
    if not 2**-12 * scale <= error <= 2**-5 * scale or _by_formula(suspect):
        return None
    if np.abs(result.actual - result.expected).mean() < _EVEN * error or not _everywhere(result):
        return None
    return Diagnosis(
        "rounded too early",
        "The errors are small, but as large as rounding to bfloat16 makes them: something was "
        "rounded too early. Accumulate in float32 (preferred_element_type, a float32 scratch) and "
        "cast once, at the end.",
        vague=True,
    )
