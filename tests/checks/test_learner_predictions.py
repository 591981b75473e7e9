"""Numbers beside what is measured: what is near enough, and what is said of the rest."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from grader.checks import numbers_and_tests
from grader.checks.evidence import TpuEvidence
from grader.exercise.key_tables import Predictions
from pallascope.model import (
    Accident,
    Baseline,
    Check,
    Finding,
    InstructionBytes,
    Measured,
    MeasuredProgram,
    NotJudged,
)
from tests.support.factories import attempt, evidence, with_key

#: 1 ms for the bytes, 0.5 ms for the operations; XLA moves three times as much.
SCALE = MeasuredProgram(
    "scale",
    read=600_000,
    written=400_000,
    elements=250_000,
    flops=500_000,
    bandwidth=1e9,
    peak=1e9,
    other_peak=2e9,
    baseline=Baseline((InstructionBytes("fusion", 2_000_000, 1_000_000),), 0.004),
)
#: The other way round.
PRODUCT = dataclasses.replace(SCALE, name="product", flops=4_000_000)
RIGHT = [[1e6, 5e5, 1000, 3.0], [1e6, 4e6, 4000, 1.0]]


def asked(answers: Any, *programs: MeasuredProgram) -> TpuEvidence:
    return dataclasses.replace(
        with_key(evidence(attempt(answers)), predictions=Predictions(("scale", "product"), 0.2)),
        measured=lambda: Measured(programs or (SCALE, PRODUCT)),
        baselines=lambda: Measured(programs or (SCALE, PRODUCT)),
    )


def changed(row: int, column: int, value: float) -> TpuEvidence:
    answers = [list(each) for each in RIGHT]
    answers[row][column] = value
    return asked(answers)


@pytest.mark.parametrize("off", [0.81, 1.0, 1.19])
def test_what_is_near_is_right(off: float) -> None:
    answers = [[off * value for value in row] for row in RIGHT]
    assert numbers_and_tests.check_predictions(asked(answers)) is None
    assert numbers_and_tests.check_against_xla(asked(answers)) is None


@pytest.mark.parametrize(
    ("row", "column", "value", "says"),
    [
        (0, 0, 6e5, "without the write of the result"),
        (0, 0, 4e5, "without the reads"),
        (0, 0, 2.5e5, "the number of elements"),
        (0, 0, 8e6, "the number of bits"),
        (1, 1, 2e6, "a multiply-add counts as two"),
        (0, 2, 500, "moving the bytes takes longer"),
        (1, 2, 1000, "the operations take longer"),
        (1, 2, 5000, "the sum of both times"),
        (1, 2, 2000, "at the peak of another dtype"),
        (0, 2, 1, "in milliseconds"),
        (0, 2, 0.001, "in seconds"),
        (0, 2, float("nan"), "not a finite number"),
        (1, 0, 3e6, "product: bytes is too large by more than"),
        (1, 0, 3e5, "product: bytes is too small by more than"),
    ],
)
def test_a_wrong_number_is_recognised(row: int, column: int, value: float, says: str) -> None:
    finding = numbers_and_tests.check_predictions(changed(row, column, value))
    assert isinstance(finding, Finding)
    assert finding.check is Check.PREDICTIONS
    assert says in " ".join(f"{finding.phrase} {finding.message}".split())
    assert "1,000,000" not in finding.message, "the answer itself is not told"
    assert "times what" not in finding.message, "nor can it be divided out"


@pytest.mark.parametrize(
    ("row", "value", "says"),
    [
        (0, 1.0, "if XLA moved no more"),
        (0, 1 / 3, "upside down"),
        (1, 3.0, "the ratio of the bytes"),
    ],
)
def test_a_wrong_speedup_is_recognised(row: int, value: float, says: str) -> None:
    assert numbers_and_tests.check_predictions(changed(row, 3, value)) is None
    finding = numbers_and_tests.check_against_xla(changed(row, 3, value))
    assert isinstance(finding, Finding)
    assert says in " ".join(finding.message.split())


def test_without_the_compiler_the_speedup_is_not_judged() -> None:
    unasked = dataclasses.replace(SCALE, baseline=Baseline(missing="no libtpu here"))
    told = numbers_and_tests.check_against_xla(asked(RIGHT, unasked, PRODUCT))
    assert told == NotJudged(Check.PREDICTIONS, "no libtpu here")


def test_what_xla_could_not_be_asked_is_not_judged() -> None:
    lost = dataclasses.replace(asked(RIGHT), baselines=lambda: Accident("crashed", "it crashed"))
    assert numbers_and_tests.check_predictions(lost) is None
    assert numbers_and_tests.check_against_xla(lost) == NotJudged(Check.PREDICTIONS, "crashed")
