"""A roster: what its file may look like, and which clone belongs to which of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.classroom.students import (
    Clone,
    MalformedRoster,
    Roster,
    RosterRow,
    Snapshot,
    match_roster,
    read_roster,
)

ADA = RosterRow(2, "Ada Byron", "ada@example.com", "ada", "https://github.com/org/hw-1.git")
BOB = RosterRow(3, "Bob", "bob@example.com", "bob-j", "git@github.com:bobs/hw-1.git")


def roster(tmp_path: Path, content: str | bytes) -> Roster:
    file = tmp_path / "roster.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_roster(file)


def matched(rows: list[RosterRow], *folders: str) -> tuple[list[Clone | Snapshot], list[str]]:
    """The students of a class with these folders, and those that are on no row."""
    clones = [Clone(folder, Path("class", folder)) for folder in folders]
    students, strangers = match_roster(Roster(tuple(rows)), clones)
    return list(students), list(strangers)


@pytest.mark.parametrize(
    "content",
    [
        "name,email,login,repository\nAda Byron,a@b.c,ada,org/hw\n",
        "\ufeffRepository;LOGIN;E-Mail;Name\r\norg/hw;ada;a@b.c;Ada  Byron\r\n;;;\r\n",
        '\nlogin,"name",group,repository,email\nada, Ada Byron ,7,org/hw,a@b.c',
    ],
    ids=["commas", "Excel", "more columns"],
)
def test_columns_are_found_by_name(tmp_path: Path, content: str) -> None:
    (row,) = roster(tmp_path, content).rows
    assert (row.name, row.email, row.login, row.repository) == (
        "Ada Byron",
        "a@b.c",
        "ada",
        "org/hw",
    )


def test_a_cell_may_hold_a_separator_and_another_may_be_missing(tmp_path: Path) -> None:
    rows = roster(tmp_path, 'name,login,email\n"Byron, Ada",ada\n\nBob\n').rows
    assert rows == (RosterRow(2, "Byron, Ada", login="ada"), RosterRow(4, "Bob"))


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("", 1, "found nothing"),
        ("Ada,ada\nBob,bob\n", 1, "must name the columns.*found Ada, ada"),
        ("login,email\nada,a@b.c\n", 1, "must name the columns"),
        ("name,email\nAda,a@b.c\n", 1, "must name the columns"),
        ("name,login,Name\nAda,ada,x\n", 1, "two columns have the name name"),
        ("name,login\n", 2, "no students"),
        ("name,login\nAda,ada\n ,bob\n", 3, "the name is empty"),
        ("name,login\nAda,ada\nByron, Ada,ada\n", 3, "3 cells below 2 columns"),
        ('name,login\nAda,ada\n"Bob,bob\n', 3, "malformed CSV"),
        ("name,login\nAda,ada\nZoë,zoe\n".encode("latin-1"), 3, "not UTF-8"),
        ("name,login\nAda,ada\n".encode("utf-16"), 1, "not UTF-8"),
    ],
)
def test_a_malformed_roster_is_an_error_with_its_line(
    tmp_path: Path, content: str | bytes, line: int, reason: str
) -> None:
    with pytest.raises(MalformedRoster, match=rf"roster\.csv:{line}: .*{reason}"):
        roster(tmp_path, content)


def test_no_cell_steers_a_terminal(tmp_path: Path) -> None:
    (row,) = roster(tmp_path, 'name,login\n"A\x1b[2J\nda",ada\n').rows
    assert row.name == r"A\x1b[2J da"


@pytest.mark.parametrize(
    "folder",
    [
        "ada",
        "ADA",
        "ada@example.com",
        "ada byron",
        "org/hw-1",
        "week 1/Ada",
        "hw-1-ada",
        "week 1/hw-1-Ada",
    ],
)
def test_a_folder_that_belongs_to_a_row(folder: str) -> None:
    (ada, bob), strangers = matched([ADA, BOB], folder)
    assert ada == Clone("Ada Byron", Path("class", folder))
    assert bob == Snapshot("Bob", {}, ("no repository (line 3 of the roster)",))
    assert strangers == []


@pytest.mark.parametrize("folder", ["adam", "xada", "ada/work", "hw-1-bob", "ada-2"])
def test_a_folder_that_belongs_to_nobody(folder: str) -> None:
    students, strangers = matched([ADA, BOB], folder)
    assert all(isinstance(student, Snapshot) for student in students)
    assert strangers == [folder]


def test_a_name_may_be_composed_in_two_ways() -> None:
    zoe = RosterRow(2, "Zoe\u0308", login="z")
    (found,), _ = matched([zoe], "Zo\u00eb")
    assert isinstance(found, Clone)


def test_a_fork_is_told_from_others_by_its_owner() -> None:
    students, strangers = matched([ADA, BOB], "bobs/hw-1", "org/hw-1")
    roots = [student.root.as_posix() for student in students if isinstance(student, Clone)]
    assert roots == ["class/org/hw-1", "class/bobs/hw-1"]
    assert strangers == []


def test_the_longer_login_at_the_end_of_a_folder_counts() -> None:
    short = RosterRow(4, "Jay", login="j")
    (bob, jay), _ = matched([BOB, short], "hw-1-bob-j", "hw-1-j")
    assert isinstance(bob, Clone)
    assert isinstance(jay, Clone)
    assert (bob.root.name, jay.root.name) == ("hw-1-bob-j", "hw-1-j")


def test_a_clone_that_two_rows_claim_counts_for_neither() -> None:
    twin = RosterRow(5, "Eve", login="ADA")
    students, strangers = matched([ADA, twin], "ada")
    reason = "lines 2 and 5 of the roster claim the clone ada: it counts for none of them"
    assert students == [Snapshot("Ada Byron", {}, (reason,)), Snapshot("Eve", {}, (reason,))]
    assert strangers == []


def test_of_two_clones_the_first_counts() -> None:
    (ada,), _ = matched([ADA], "a/ada", "b/ada")
    assert ada == Clone(
        "Ada Byron", Path("class/a/ada"), ("2 clones: a/ada, b/ada; only the first counts",)
    )


def test_rows_that_occur_twice(tmp_path: Path) -> None:
    text = """name,login,email,repository
Ada,ada,a@example.com,org/hw
Bob,bob,A@example.com,
ada,ADA,,https://github.com/Org/hw
Eve,eve,,hw
"""
    found = roster(tmp_path, text)
    assert [row.name for row in found.rows] == ["Ada", "Bob", "Eve"]
    assert found.problems == (
        "lines 2 and 3 have the same e-mail",
        "lines 2 and 4 have the same login and repository; line 4 is left out",
    )


def test_students_of_the_same_name_are_told_apart() -> None:
    rows = (RosterRow(2, "Jan", login="j1"), RosterRow(3, "Jan"), RosterRow(4, "Ada"))
    assert Roster(rows).labels() == ("Jan (j1)", "Jan (line 3)", "Ada")
