"""Grades for machines: the JSON file and JUnit XML's properties."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest

from grader.report import report_files
from grader.verdict import Conditions, Device, Grade, State
from pallascope.model import Check, Finding, Mode
from pallascope.tools import codec, versions

OFF = Finding(Check.VALUES, "off by −1", "all\nof it")
GRADES = [
    Grade("1_a/y", 1, State.PASSED, 2, drawn="M=8", seconds=0.5),
    Grade("1_a/y", 0, State.FAILED, 1, OFF, "M=16", 0.25, "printed ∑\n"),
    Grade("1_a/x", 0, State.TODO, 0),
]


@pytest.fixture
def conditions() -> Conditions:
    return Conditions(77, Device("cpu", Mode.INTERPRET), ("v6e",))


def test_the_document_says_how_the_grades_came_about(conditions: Conditions) -> None:
    document = report_files.json_document(GRADES, conditions)
    assert document["schema"] == report_files.SCHEMA_VERSION == 3
    assert (document["seed"], document["backend"], document["mode"]) == (77, "cpu", "interpret")
    assert document["chips"] == ["v6e"]
    assert document["gpu"] == "h100"
    assert list(document["versions"]) == ["pallas-katas", "jax", "jaxlib", "libtpu"]
    assert document["versions"]["jax"] == jax.__version__


def test_a_package_that_is_not_here_has_no_version(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        if package == "libtpu":
            raise versions.PackageNotFoundError(package)
        return f"1.{package}"

    monkeypatch.setattr(versions, "version", version)
    installed = report_files.json_document([], conditions)["versions"]
    assert installed["libtpu"] is None
    assert installed["jaxlib"] == "1.jaxlib"


def test_grades_stand_in_the_order_of_exercise_and_case(conditions: Conditions) -> None:
    grades = report_files.json_document(GRADES, conditions)["grades"]
    assert [(grade["kata"], grade["case"]) for grade in grades] == [
        ("1_a/x", 0),
        ("1_a/y", 0),
        ("1_a/y", 1),
    ]


def test_what_is_written_reads_back_as_the_same_grades(
    conditions: Conditions, tmp_path: Path
) -> None:
    file = tmp_path / "deep" / "er" / "grades.json"
    for _ in range(2):  # into a new folder, and over a file
        report_files.write_json(file, GRADES, conditions)
    data = json.loads(file.read_text(encoding="utf-8"))
    back = [codec.from_builtins(Grade, grade) for grade in data["grades"]]
    assert back == [GRADES[2], GRADES[1], GRADES[0]]
    assert data == report_files.json_document(GRADES, conditions)


def test_the_file_is_for_people_too(conditions: Conditions, tmp_path: Path) -> None:
    file = tmp_path / "grades.json"
    report_files.write_json(file, GRADES, conditions)
    text = file.read_text(encoding="utf-8")
    assert "off by −1" in text
    assert text.startswith('{\n  "schema": 3,\n')
    assert text.endswith("}\n")


def test_whatever_was_printed_can_be_written(conditions: Conditions, tmp_path: Path) -> None:
    """An exception in pytest_sessionfinish would end the session in an internal error."""
    grade = Grade("1_a/x", 0, State.FAILED, 0, Finding(Check.RUNS, "ValueError: \ud800", ""))
    report_files.write_json(tmp_path / "grades.json", [grade], conditions)


def test_a_failed_grade_as_properties() -> None:
    assert report_files.properties(GRADES[1]) == [
        ("kata", "1_a/y"),
        ("kata_state", "failed"),
        ("kata_stars", "1"),
        ("kata_case", "M=16"),
        ("kata_check", "values"),
        ("kata_reason", "off by −1"),
    ]


def test_a_passed_grade_has_no_reason() -> None:
    names = [name for name, _ in report_files.properties(GRADES[0])]
    assert names == ["kata", "kata_state", "kata_stars", "kata_case"]
