"""Diagnoses by value: offsets, factors, another formula, rounding, missing terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pallascope.checks.compare import ROUNDOFF, Comparison, Floats
from pallascope.checks.diagnoses.suspect import (
    Diagnosis,
    Suspect,
    rms,
    rounding,
    wrong_values,
)
from pallascope.checks.phrasing import number
from pallascope.model import BROKEN_PROMISE, Hypothesis, Lint

_LEAST_FACTOR = 1e-3


_PROMISE = "multiple_of"  # the primitive's name


def edge_of_an_operation(suspect: Suspect) -> Diagnosis | None:
    """Right values, if an operation had XLA's result on the CPU, which a TPU's differs from."""
    result, as_xla = suspect.result, suspect.as_xla
    if as_xla is None or not result.close(as_xla, result.expected, result.allowed):
        return None
    name, _, _ = suspect.edge.partition(":")
    if name == _PROMISE:
        return Diagnosis(
            BROKEN_PROMISE,
            "The result would be right without pl.multiple_of. It is a promise: Mosaic "
            "leaves out the code for all other indices, and here the index is rounded down to the "
            "multiple. Promise only a number that divides the index on each grid step, or nothing.",
            tested=True,
        )
    return Diagnosis(
        f"right on the CPU only: {name}",
        "The result would be right if each operation computed what XLA does on the CPU. For some "
        f"operands a TPU does not, and its result is used here. XLA's {suspect.edge}",
        vague=True,
        tested=True,
    )


def rows_of_nothing(suspect: Suspect) -> Diagnosis | None:
    """Every wrong row should be zero, because nothing contributes to it; others should not."""
    result = suspect.result
    if result.actual.ndim < 2 or result.dtype not in ROUNDOFF or _unwritten(suspect):
        return None
    rows = [v.reshape(-1, result.actual.shape[-1]) for v in (result.wrong, result.expected)]
    wrong, empty = rows[0].any(1), ~rows[1].any(1)
    if not wrong.any() or empty.all() or (wrong & ~empty).any():
        return None
    row = np.unravel_index(int(np.argmax(wrong)), result.actual.shape[:-1])
    where = ", ".join(str(int(i)) for i in row)
    held = "NaN" if np.isnan(result.actual[row]).any() else "other numbers"
    return Diagnosis(
        "rows to which nothing contributes are not zero",
        f"All wrong rows, such as row {where}, should be zero but hold {held}. Nothing contributes "
        "to them (in attention, such a query may see no key): look at the kernel's result for a "
        f"fully masked row. {_what_masks(suspect)}",
        vague=True,
    )


def _what_masks(suspect: Suspect) -> str:
    if suspect.call and Lint.NEAR_MASK in suspect.call.lints:
        return f"The kernel masks with a number that {_NEAR}"
    return (
        "A finite mask value far below all scores avoids (−inf) − (−inf), and no score may be as "
        "low."
    )


def mask_within_reach(suspect: Suspect) -> Diagnosis | None:
    """A mask value that real scores may reach, in a kernel whose result has wrong rows."""
    call = suspect.call
    if call is None or Lint.NEAR_MASK not in call.lints or suspect.result.actual.ndim < 2:
        return None
    if not np.isfinite(suspect.result.actual).all():
        return None
    return Diagnosis(
        "a mask value within reach of the scores?",
        f"The kernel masks with a number that {_NEAR} Mask with the initial value of the maxima, "
        "near the dtype's lowest.",
        vague=True,
        guess=True,
    )


_NEAR = (
    "is large, but within reach of real scores. If real scores are that low, or everything in a "
    "row so far is masked, masked elements get a weight; and a row without any key looks like one "
    "that has some, because its maximum is above the initial maximum."
)


def _unwritten(suspect: Suspect) -> bool:
    """Whether the NaN in a result disappear if unwritten memory holds zeros."""
    nan = np.isnan(suspect.result.actual) & suspect.result.wrong
    zeros = suspect.with_zeros
    return bool(nan.any() and (zeros is None or not np.isnan(zeros[nan]).any()))


def all_zero(suspect: Suspect) -> Diagnosis | None:
    """Every wrong element is exactly zero."""
    result = suspect.result
    if result.actual[result.wrong].any():
        return None
    how = (
        ": nothing was added or stored after it was initialised, or a mask left it out, or it was "
        "initialised again after the work was done"
    )
    return Diagnosis(
        "zeros where values belong",
        f"Every wrong element is exactly zero{how if suspect.call else ''}.",
        vague=True,
    )


def same_amount(suspect: Suspect) -> Diagnosis | None:
    """Every element is off by one constant."""
    result = suspect.result
    got, wanted, allowed = wrong_values(result)
    if got.size < 2:
        return None
    amount = float(np.median(got - wanted))
    slack = allowed + rounding(got, result.dtype)
    if not (np.abs(got - wanted - amount) <= slack).all() or abs(amount) <= slack.max():
        return None
    return Diagnosis(
        f"off by the same amount: {number(amount)}",
        f"Every wrong element is off by the same amount: {number(amount)}.",
        vague=True,
        symptom=True,
    )


def same_factor(suspect: Suspect) -> Diagnosis | None:
    """Every element is off by one constant factor."""
    result = suspect.result
    got, wanted, allowed = wrong_values(result)
    large = np.abs(wanted) > 4 * allowed
    if large.sum() < 2:
        return None
    factor = float(np.median(got[large] / wanted[large]))
    slack = allowed * max(abs(factor), 1.0) + rounding(got, result.dtype)
    if abs(factor - 1) * np.abs(wanted[large]).max() <= slack.max():
        return None
    if not (np.abs(got - factor * wanted) <= slack).all():
        return None
    return Diagnosis(
        f"off by the same factor: {number(factor)}",
        f"Every wrong element is off by the same factor: {number(factor)} times the expected "
        "value.",
        vague=True,
        symptom=True,
    )


def factor_of_the_row(suspect: Suspect) -> Diagnosis | None:
    """The elements of each wrong row are off by one factor, a different one for each row."""
    result = suspect.result
    if result.actual.ndim < 2 or result.dtype not in ROUNDOFF:
        return None
    if not np.isfinite(result.actual[result.wrong]).all():
        return None
    length = result.actual.shape[-1]
    rows = [v.reshape(-1, length) for v in (result.actual, result.expected, result.allowed)]
    wrong = result.wrong.reshape(-1, length).any(1)
    got, wanted, allowed = (values[wrong] for values in rows)
    power = (wanted**2).sum(1)
    if len(got) < 2 or length < 2 or not power.all() or not np.isfinite(power).all():
        return None
    factors = (got * wanted).sum(1) / power
    # A row of zeros fits any factor; a factor of zero means that the row is missing.
    if (np.abs(factors) < _LEAST_FACTOR).any():
        return None
    slack = allowed * np.maximum(np.abs(factors), 1.0)[:, None] + rounding(got, result.dtype)
    if not (np.abs(factors[:, None] - 1) * np.abs(wanted) > slack).any():
        return None  # the errors are those of rounding: any factor near 1 fits them
    if not (np.abs(got - factors[:, None] * wanted) <= slack).all():
        return None
    low, high = number(float(factors.min())), number(float(factors.max()))
    return Diagnosis(
        "each row is off by its own factor",
        f"Each wrong row is off by its own factor, from {low} to {high}. Something that is "
        "computed for each row is wrong: its divisor, such as the sum of a softmax, or a rescaling "
        "that was forgotten or done twice.",
        vague=True,
        guess=True,
    )


def input_unchanged(suspect: Suspect) -> Diagnosis | None:
    """The result is one of the inputs."""
    result = suspect.result
    for name, value in (suspect.inputs or {}).items():
        if value.shape == result.actual.shape and np.array_equal(value, result.actual):
            return Diagnosis(f"equals {name}, unchanged", f"The result is {name}, unchanged.")
    return None


def changed_spec(
    result: Comparison, hypotheses: Sequence[tuple[Hypothesis, Floats]]
) -> Diagnosis | None:
    """The diagnosis of a result that equals that of a changed spec, in all elements."""
    found = [
        hypothesis
        for hypothesis, value in hypotheses
        if result.explained_by(value, rounding(value, result.dtype))
    ]
    if not found:
        return None
    either = ", or as if ".join(one.change for one in found[:2])
    return Diagnosis(
        f"as if {found[0].change}",
        f"All of {result.name} is as if {either}. {found[0].look}",
        vague=True,
    )


def another_formula(suspect: Suspect) -> Diagnosis | None:
    """Small errors that depend on the value, as rounding errors do not."""
    result = suspect.result
    if not np.isfinite(result.actual).all() or not np.isfinite(result.expected).all():
        return None
    scale, error = rms(result.expected), rms(result.actual - result.expected)
    if not 0 < error <= 2**-5 * scale or not _by_formula(suspect):
        return None
    return Diagnosis(
        "nearly right: another formula?",
        "The errors are small, and elements with the same value are off by the same amount, which "
        "one rounding rarely causes. So a formula differs a little: an approximation instead of "
        "the exact function, or the other way round, a constant that is a bit off, or a state that "
        "is rounded again in every iteration of a loop.",
        vague=True,
        guess=True,
    )


#: Groups of wrong elements with similar values, large enough for rounding errors to cancel; the
#: fewest elements in all; and the part of their errors that the groups' means must explain.
_GROUPS, _FEWEST_IN_GROUPS, _EXPLAINED = 16, 256, 0.5


def _by_formula(suspect: Suspect) -> bool:
    """Whether the error is a function of the value: rounding errors cancel in a group of similar
    values, those of another formula do not."""
    result = suspect.result
    got, wanted, _ = wrong_values(result)
    error = (got - wanted)[np.argsort(wanted)]
    if error.size < _FEWEST_IN_GROUPS:
        return False
    groups = [float(group.mean()) for group in np.array_split(error, _GROUPS)]
    total = rms(error)
    return total > 0 and rms(np.array(groups)) ** 2 > _EXPLAINED * total**2


#: Rounding errors are similar everywhere: their mean is at least this part of their root mean
#: square. A few large errors among many small ones don't come from rounding.
_EVEN = 0.3


#: Rounding errors touch at least this part of the rows and columns that randomly placed elements
#: would touch. And an error too large for rounding, as a part of the largest element.
_SCATTERED, _WILD = 0.8, 2**-3


def _everywhere(result: Comparison) -> bool:
    """Whether errors are spread like rounding errors: over most rows and columns, none as large as
    the values, and none in a row whose right values are all zero."""
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
    """Whether the wrong elements of the wrong blocks touch about as many columns (`axis` 0) or rows
    (1) as that many randomly placed elements would."""
    touched = expected = 0.0
    for index in result.wrong_blocks:
        wrong = result.wrong[result.part(index)]
        lines = wrong.reshape(-1, wrong.shape[-1]).any(axis)
        touched += lines.sum()
        expected += lines.size * (1 - (1 - 1 / lines.size) ** int(wrong.sum()))
    return touched >= _SCATTERED * expected


_FEWEST = 16  # the fewest elements whose errors show that they are of a rounding


def rounded_too_early(suspect: Suspect) -> Diagnosis | None:
    """Errors of bfloat16 size in a result that should have float32's: rounded on the way."""
    result = suspect.result
    if result.dtype not in ROUNDOFF or not np.isfinite(result.actual).all():
        return None
    if not np.isfinite(result.expected).all() or result.actual.size < _FEWEST:
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
        guess=True,
    )
