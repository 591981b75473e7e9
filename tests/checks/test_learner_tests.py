"""What is said of a test by what it finds."""

from __future__ import annotations

import pytest

from grader.checks import numbers_and_tests
from pallascope.model import Check, Observation, Trial, TrialVerdict
from tests.support.factories import evidence

PASSED, REJECTED = TrialVerdict
RIGHT = Trial("stands in the file", True, PASSED, 1)
FOUND = Trial("adds twice", False, REJECTED, 1, "AssertionError", 7)
MISSED = Trial("forgets the last block", False, PASSED, 2)


def told(*trials: Trial) -> str:
    finding = numbers_and_tests.check_planted(evidence(Observation(trials=trials)))
    if finding is None:
        return ""
    assert finding.check is Check.PLANTED
    return " ".join(f"{finding.phrase}\n{finding.message}".split())


def test_a_test_that_tells_them_apart_is_right() -> None:
    assert told(RIGHT, FOUND) == ""


def test_each_survivor_is_told() -> None:
    words = told(RIGHT, FOUND, MISSED)
    assert "passes for a kernel that forgets the last block" in words
    assert "does not find 1 of 2 wrong kernels" in words
    assert "called the launch 2 times" in words
    assert "adds twice" not in words


@pytest.mark.parametrize("title", ["stands in the file", "adds in another order"])
def test_a_right_kernel_has_to_pass(title: str) -> None:
    refused = Trial(title, True, REJECTED, 1, "AssertionError: too far off", 9)
    words = told(refused, MISSED)
    assert f"rejects a right kernel: one that {title}" in words
    assert "AssertionError: too far off" in words
    assert ":9" in words
    assert "forgets" not in words


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("LaunchFailed: ValueError: K and N", "the launch raises"),
        ("TypeError: no array", "TypeError with a right kernel"),
    ],
)
def test_other_exceptions_are_told_as_such(error: str, says: str) -> None:
    words = told(Trial("stands in the file", True, REJECTED, 1, error, 9))
    assert says in words
    assert error in words
    assert "in any order" not in words


def test_a_test_has_to_call_the_launch() -> None:
    assert "never calls the launch" in told(Trial("stands in the file", True, PASSED, 0), MISSED)
