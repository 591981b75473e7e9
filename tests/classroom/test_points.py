"""Points: stars times weights, and the files that learning platforms take."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.classroom.class_report import (
    Points,
    RegradedFile,
    format_points,
    grades_csv,
    not_in_grades,
    weights,
)
from grader.classroom.students import Roster, RosterRow, Snapshot, StudentKata, StudentStanding
from grader.exercise.catalog import katas
from grader.record.status import FileState
from tests.support.repositories import Shop

ADA = RosterRow(2, "Ada King Byron", "ada@example.com", "ada")
BOB = RosterRow(3, "=Bob", login="bob")
CLEO = RosterRow(4, "Roux, Cleo", "cleo@example.com", "cleo")


def standing(shop: Shop, name: str, *stars: int) -> StudentStanding:
    """A student with these stars for the shop's exercises, in order."""
    ids = (shop.double.id, shop.row_sum.id, shop.row_max.id)
    entries = [StudentKata(at, FileState.SOLVED, n) for at, n in zip(ids, stars, strict=True)]
    return StudentStanding(Snapshot(name, {}), tuple(entries))


def test_the_last_weight_of_a_name_counts(shop: Shop) -> None:
    found = weights(shop.root, ["first=2", "row=0.5", "row_max=10"])
    assert found == {shop.double.id: 2, shop.row_sum.id: 0.5, shop.row_max.id: 10}
    assert weights(shop.root, []) == {}
    assert weights(shop.root, ["row_max=0"]) == {shop.row_max.id: 0}


@pytest.mark.parametrize(
    "choice",
    ["double", "double=", "=2", " =2", "2", "double=x", "double===", "double=-1", "double=-0.5"]
    + [f"double={number}" for number in ("nan", "inf", "-inf", "1e7")],
)
def test_a_malformed_weight(shop: Shop, choice: str) -> None:
    with pytest.raises(ValueError, match="needs NAME=NUMBER with a number from 0"):
        weights(shop.root, ["double=1", choice])


def test_an_unknown_name(shop: Shop) -> None:
    with pytest.raises(ValueError, match="no kata matches 'triple'"):
        weights(shop.root, ["triple=2"])


def test_points_are_stars_times_weights(shop: Shop) -> None:
    points = Points(weights(shop.root, ["row_sum=0.25", "row_max=0"]))
    ada = standing(shop, "ada", 2, 3, 3)
    assert points.total(ada) == 2.75
    assert [points.of_kata("ada", entry) for entry in ada.katas] == [2, 0.75, 0]
    assert points.maximum(katas(shop.root)) == 3.75


def test_stars_of_files_that_were_graded_again(shop: Shop) -> None:
    """But not for want of a device on this machine."""
    files = [
        RegradedFile("ada", shop.double.id, claimed=3, stars=1),
        RegradedFile("ada", shop.row_sum.id, claimed=3, stars=0, partly_judged=True),
        RegradedFile("ada", shop.row_max.id, claimed=0, stars=2),
        RegradedFile("bob", shop.double.id, claimed=0, stars=3),
    ]
    points = Points({shop.row_max.id: 10}, files)
    assert points.total(standing(shop, "ada", 3, 3, 0)) == 1 + 3 + 20
    assert points.total(standing(shop, "bob", 0, 1, 0)) == 3 + 1


def test_how_points_are_written() -> None:
    numbers = [0, 3, 10, 2.5, 1 / 3, 1234567.0, 0.1 + 0.2]
    assert list(map(format_points, numbers)) == ["0", "3", "10", "2.5", "0.33", "1234567", "0.3"]


def grades(shop: Shop, platform: str) -> list[str]:
    students = [
        (ADA, standing(shop, "Ada", 3, 2, 0)),
        (BOB, standing(shop, "Bob", 0, 0, 0)),
        (CLEO, standing(shop, "Cleo", 1, 1, 1)),
    ]
    points = Points({shop.double.id: 1.5})
    return grades_csv(platform, students, points, katas(shop.root)).splitlines()


def test_canvas(shop: Shop) -> None:
    assert grades(shop, "canvas") == [
        "Student,ID,SIS User ID,SIS Login ID,Section,Pallas Katas",
        "Points Possible,,,,,10.5",
        "Ada King Byron,,,ada@example.com,,6.5",
        "'=Bob,,,,,0",
        '"Roux, Cleo",,,cleo@example.com,,3.5',
    ]


def test_moodle_has_nobody_without_an_address(shop: Shop) -> None:
    assert grades(shop, "moodle") == [
        "First name,Last name,Email address,Pallas Katas",
        "Ada King,Byron,ada@example.com,6.5",
        "Cleo,Roux,cleo@example.com,3.5",
    ]
    roster = Roster((ADA, BOB, CLEO))
    assert not_in_grades("moodle", roster) == [
        "no e-mail on the roster, so not in the grades: =Bob"
    ]
    assert not_in_grades("canvas", roster) == not_in_grades(None, roster) == []


def test_google_classroom(shop: Shop) -> None:
    assert grades(shop, "classroom") == [
        "Last Name,First Name,Email Address,Pallas Katas",
        "Byron,Ada King,ada@example.com,6.5",
        ",'=Bob,,0",
        "Roux,Cleo,cleo@example.com,3.5",
    ]


def test_the_docs_name_the_columns() -> None:
    page = (Path(__file__).parents[2] / "docs/teaching-a-class.md").read_text(encoding="utf-8")
    for columns in (
        "`Student`, `ID`, `SIS User ID`, `SIS Login ID`, `Section`, `Pallas Katas`",
        "`First name`, `Last name`, `Email address`, `Pallas Katas`",
        "`Last Name`, `First Name`, `Email Address`, `Pallas Katas`",
    ):
        assert columns in page
