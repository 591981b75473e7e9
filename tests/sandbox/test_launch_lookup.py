"""How a file hands over its launch function."""

from __future__ import annotations

import types

import pytest

from grader.sandbox.trace_worker import handed_over
from pallascope.runs.exception_reports import MissingGradeCall
from tests.support.repositories import Repository


def module(text: str) -> types.ModuleType:
    found = types.ModuleType("written")
    exec(text, found.__dict__)
    return found


def test_the_test_hands_it_over() -> None:
    text = "def f(): return 7\ndef test_f(case): case.grade(f)"
    assert handed_over(module(text), "f")() == 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file has lost its test"),
        ("def test_f(case): pass", "does not call hidden_case.grade"),
        ("def g(): pass\ndef test_f(case): case.grade(f)", "defines no function f, which test_f"),
        (
            "f = 3\ndef test_f(case): case.grade(f)",
            "grades f, which is of type int, not a function",
        ),
    ],
    ids=["no-test", "no-call", "renamed", "number"],
)
def test_it_says_what_is_missing(text: str, why: str) -> None:
    with pytest.raises(MissingGradeCall, match=why):
        handed_over(module(text), "f")


def test_a_renamed_function_is_told_as_that(repository: Repository) -> None:
    kata = repository.add("renamed")
    repository.solve(kata)
    kata.path.write_text(kata.path.read_text().replace("def renamed(", "def another("))
    ran = repository.pytest()
    assert (
        ran.phrase("renamed") == "the file defines no function renamed, which test_renamed grades"
    )
    assert "The file hands over no launch function." in ran.out
    assert "cannot be imported" not in ran.out
    assert "kata_01_renamed.py:30" in ran.out
