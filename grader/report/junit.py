"""Grades for machines: the properties of JUnit XML's test cases.

They are documented in CONTRIBUTING.md.
"""

from __future__ import annotations

from grader.model import Grade


def properties(grade: Grade) -> list[tuple[str, str]]:
    """One grade as JUnit XML properties of its test case."""
    pairs = [
        ("kata", grade.kata),
        ("kata_state", grade.state.value),
        ("kata_stars", str(grade.stars)),
        ("kata_case", grade.drawn),
    ]
    if grade.finding:
        pairs.append(("kata_check", grade.finding.check.value))
        pairs.append(("kata_reason", grade.finding.phrase))
    return pairs
