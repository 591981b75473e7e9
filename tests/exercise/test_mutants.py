"""Planted kernels: which of them a case tries, and the texts that they are."""

from __future__ import annotations

import dataclasses

import pytest

from grader.exercise.key_tables import Planted
from grader.exercise.mutants import AS_GIVEN, planted_version

TEXT = "a = 1\nb = 2\nc = 2\n"


def test_a_version_differs_in_one_place() -> None:
    assert planted_version(TEXT, Planted("adds", "a = 1", "a = 3")) == "a = 3\nb = 2\nc = 2\n"
    assert planted_version(TEXT, AS_GIVEN) == TEXT


@pytest.mark.parametrize(("old", "times"), [("d = 1", 0), ("= 2", 2)])
def test_old_stands_there_once(old: str, times: int) -> None:
    planted = dataclasses.replace(AS_GIVEN, title="adds", old=old)
    with pytest.raises(ValueError, match=f"'adds' occurs {times} times"):
        planted_version(TEXT, planted)
