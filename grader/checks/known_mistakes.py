"""Whether a wrong result is what comes out of one of the kata's known mistakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from grader.checks.compare import Comparison, Floats
from grader.checks.diagnoses.suspect import Diagnosis, rms, rounding
from grader.model import Array
from grader.tools.arrays import in_float64

#: A mistake's result is at least so many times nearer to the learner's than the right one is.
NEARER = 8


def known_mistake(
    results: Sequence[Comparison],
    resembles: Callable[[Callable[[tuple[Array, ...]], bool]], str],
    diagnosis: Diagnosis | None,
) -> Diagnosis | None:
    """What has been seen of wrong results, and whether a known mistake has the same."""

    def agree(outputs: tuple[Array, ...]) -> bool:
        return len(outputs) == len(results) and all(map(alike, results, outputs))

    title = resembles(agree)
    if not title:
        return diagnosis
    phrase, same = (
        f"the result of code that {title}",
        f"The same result comes out of code that {title}.",
    )
    if diagnosis is None:
        return Diagnosis(phrase, same)
    why = f"{same} What shows is: {diagnosis.phrase}. {diagnosis.why}"
    return dataclasses.replace(diagnosis, phrase=phrase, why=why)


def alike(result: Comparison, output: Array) -> bool:
    """Whether a result equals another one, wrong where that is wrong, up to rounding."""
    got, other = result.actual, in_float64(output)
    if got.shape != other.shape:
        return False
    finite = np.isfinite(got) & np.isfinite(other)
    if not np.array_equal(got[~finite], other[~finite], equal_nan=True):
        return False
    error = np.abs(got[finite] - other[finite])
    slack = _larger(result) * result.allowed[finite] + rounding(got[finite], result.dtype)
    if not (error <= slack).all():
        return False
    wrong = (result.wrong & np.isfinite(result.expected))[finite]
    off = got[finite][wrong] - result.expected[finite][wrong]
    return NEARER * rms(error[wrong]) <= rms(off)


def _larger(result: Comparison) -> float:
    """How much larger the result is than the expected one, and its rounding errors with it."""
    got, wanted = (_largest(values) for values in (result.actual, result.expected))
    return max(1.0, got / wanted) if wanted else 1.0


def _largest(values: Floats) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
