"""The ledger: its lines, what they say of a content, and how git merges them."""

from __future__ import annotations

import dataclasses
import datetime
import errno
import os
import resource
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.record.ledger import (
    HEADER,
    LEDGER,
    InvalidLedgerLine,
    Ledger,
    Pass,
    append_passes,
    parse_ledger,
    parse_pass,
    read_ledger,
)
from grader.record.status import (
    FileState,
    all_statuses,
    next_kata,
    status_of,
)
from grader.tools.git import blob_id
from grader.verdict import MAX_STARS
from tests.support.repositories import Clone, Shop

DAY = datetime.date(2026, 11, 18)
BLOB, OTHER = blob_id(b"one"), blob_id(b"other")
ONE = Pass("1_first/kata_01_double", BLOB, 2, DAY, (("grader", "0.1.0"), ("libtpu", "-")))
LINE = f"1_first/kata_01_double  {BLOB}  2  2026-11-18  grader=0.1.0 libtpu=-"

words = st.text(string.ascii_lowercase + string.digits + "_", max_size=12)
katas = st.builds(
    "{}_a{}/kata_{:02}_z{}".format, st.integers(0, 20), words, st.integers(0, 120), words
)
versions = st.tuples(
    st.text(string.ascii_lowercase, min_size=1),
    st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "katas").mkdir()
    return tmp_path


# ---- lines ----


@settings(deadline=None, database=None, max_examples=50)
@given(
    st.builds(
        Pass,
        katas,
        st.text("0123456789abcdef", min_size=40, max_size=40),
        st.integers(1, MAX_STARS),
        st.dates(),
        st.lists(versions, max_size=4).map(tuple),
    )
)
def test_a_line_reads_back_as_its_pass(recorded: Pass) -> None:
    assert parse_pass(str(recorded)) == recorded
    assert parse_ledger(f"\ufeff# a comment\n\n{recorded}\r\n") == Ledger((recorded,))


def test_the_form_of_a_line() -> None:
    assert str(ONE) == LINE
    assert str(dataclasses.replace(ONE, versions=())) == LINE.partition("  grader")[0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1_first/kata_01_double  " + BLOB, "2 of the 4 fields"),
        (LINE.replace("1_first", "first"), "'first/kata_01_double' is not a kata"),
        (LINE.replace(BLOB, BLOB[:-1]), "40 hex digits"),
        (LINE.replace("  2  ", "  4  "), "'4' stars, not 1 to 3"),
        (LINE.replace("  2  ", "  0  "), "'0' stars"),
        (LINE.replace("11-18", "11-31"), "'2026-11-31' is not a day"),
        (LINE.replace("libtpu=-", "libtpu"), "'libtpu' is not NAME=VERSION"),
        ("<<<<<<< HEAD", "a git conflict marker"),
        ("=======", "a git conflict marker"),
        (">>>>>>> other", "a git conflict marker"),
        ("\ufffd\0", "1 of the 4 fields"),
    ],
    ids=range(11),
)
def test_a_line_that_is_no_pass_says_why(line: str, reason: str) -> None:
    with pytest.raises(InvalidLedgerLine, match=reason):
        parse_pass(line)


def test_a_corrupt_line_is_skipped_with_its_number() -> None:
    ledger = parse_ledger(f"{HEADER}{LINE[:30]}\n{LINE}\n")
    assert ledger.passes == (ONE,)
    (warning,) = ledger.warnings
    assert warning.startswith(f"{LEDGER}:3: 2 of the 4 fields")


def test_both_sides_of_a_conflict_count() -> None:
    other = dataclasses.replace(ONE, blob=OTHER)
    ledger = parse_ledger(f"<<<<<<< HEAD\n{ONE}\n=======\n{other}\n>>>>>>> theirs\n")
    assert ledger.passes == (ONE, other)
    assert [warning.split(":")[1] for warning in ledger.warnings] == ["1", "3", "5"]


# ---- what they say ----


def test_the_most_stars_of_a_content_count_and_the_first_day_of_those() -> None:
    later = dataclasses.replace(ONE, date=DAY + datetime.timedelta(1))
    better = dataclasses.replace(later, stars=3)
    elsewhere = dataclasses.replace(ONE, kata="1_first/kata_02_row_sum", stars=3)
    assert Ledger((later, ONE, elsewhere)).best(ONE.kata, BLOB) == ONE
    assert Ledger((ONE, better)).best(ONE.kata, BLOB) == better
    assert Ledger((ONE,)).best(ONE.kata, OTHER) is None


def test_the_latest_pass_is_the_last_wherever_its_line_stands() -> None:
    early, late, evening = (
        dataclasses.replace(ONE, blob=blob_id(bytes([n])), stars=3 - n // 2, date=day)
        for n, day in enumerate((DAY, DAY + datetime.timedelta(1), DAY + datetime.timedelta(1)))
    )
    assert Ledger((late, evening, early)).last(ONE.kata) == evening
    assert Ledger((early,)).last("1_first/kata_02_row_sum") is None


def test_only_what_is_more_is_lacking() -> None:
    ledger = Ledger((ONE,))
    again = dataclasses.replace(ONE, date=DAY + datetime.timedelta(9))
    assert not ledger.is_new(again)
    assert not Ledger((dataclasses.replace(ONE, stars=3),)).is_new(again)
    assert ledger.is_new(dataclasses.replace(ONE, stars=3))
    assert ledger.is_new(dataclasses.replace(ONE, blob=OTHER))


# ---- the file ----


def test_the_first_pass_makes_the_file(root: Path) -> None:
    assert read_ledger(root) == Ledger()
    append_passes(root, [ONE])
    assert (root / LEDGER).read_bytes().decode() == f"{HEADER}{LINE}\n"
    assert read_ledger(root) == Ledger((ONE,))


@pytest.mark.parametrize("before", [LINE, f"{LINE}\r\n", "no pass", "\xff\n"], ids=range(4))
def test_what_stands_there_is_only_added_to(root: Path, before: str) -> None:
    (root / LEDGER).write_bytes(before.encode("latin-1"))
    other = dataclasses.replace(ONE, blob=OTHER)
    append_passes(root, [other])
    text = (root / LEDGER).read_bytes()
    assert text.startswith(before.encode("latin-1"))
    assert text.endswith(f"\n{other}\n".encode())
    assert text.count(b"\n") == 2
    assert read_ledger(root).passes[-1] == other


def test_a_ledger_that_cannot_be_read_is_empty_and_says_so(root: Path) -> None:
    (root / LEDGER).mkdir()
    ledger = read_ledger(root)
    assert ledger.passes == ()
    assert ledger.warnings == (f"{LEDGER} cannot be read: Is a directory",)
    with pytest.raises(OSError, match="directory"):
        append_passes(root, [ONE])


def test_a_disk_that_is_full_leaves_the_ledger_as_it_was(root: Path) -> None:
    """The system writes what has room, without an error; only the next write fails."""
    append_passes(root, [ONE])
    before = (root / LEDGER).read_bytes()
    others = [dataclasses.replace(ONE, blob=blob_id(bytes([n]))) for n in range(30)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1000, hard))
        with pytest.raises(OSError, match="File too large"):
            append_passes(root, others)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (root / LEDGER).read_bytes() == before
    append_passes(root, others)
    assert read_ledger(root) == Ledger((ONE, *others))


def test_what_another_process_has_appended_meanwhile_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, text: bytes) -> int:
        if text.startswith(b"#"):
            return write(file, text[:10])
        with (root / LEDGER).open("a") as theirs:
            theirs.write("theirs")
        raise OSError(errno.ENOSPC, "No space left on device")

    write = os.write
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        append_passes(root, [ONE])
    assert (root / LEDGER).read_text().endswith("theirs")


def test_git_keeps_the_lines_of_both_branches(clone: Clone) -> None:
    shop = clone.shop
    first = clone.passed(shop.double)
    clone.git("add", ".")
    clone.git("commit", "-q", "-m", "first")
    clone.git("switch", "-q", "-c", "other")
    theirs = clone.passed(shop.row_sum)
    clone.git("commit", "-q", "-a", "-m", "theirs")
    clone.git("switch", "-q", "main")
    ours = clone.passed(shop.row_max)
    clone.git("commit", "-q", "-a", "-m", "ours")
    clone.git("merge", "-q", "--no-edit", "other")
    ledger = read_ledger(clone.root)
    assert ledger.warnings == ()
    assert set(ledger.passes) == {first, theirs, ours}
    assert {status.file_state for status in all_statuses(clone.root, ledger)} == {FileState.SOLVED}


# ---- where a kata stands ----


def standing(shop: Shop, *passes: Pass) -> tuple[FileState, int]:
    status = status_of(shop.double, Ledger(passes))
    return status.file_state, status.stars


def test_a_content_that_is_known_is_solved_whatever_its_line_ends(shop: Shop) -> None:
    shop.repository.solve(shop.double)
    solved = dataclasses.replace(ONE, blob=blob_id(shop.double.path.read_bytes()))
    assert standing(shop, solved) == (FileState.SOLVED, 2)
    shop.double.path.write_bytes(shop.double.path.read_bytes().replace(b"\n", b"\r\n"))
    assert standing(shop, solved) == (FileState.SOLVED, 2)


def test_a_content_that_is_not_known_earns_nothing(shop: Shop) -> None:
    assert standing(shop) == (FileState.TODO, 0)
    assert standing(shop, ONE) == (FileState.TODO, 0)
    shop.repository.solve(shop.double)
    assert standing(shop) == (FileState.EDITED, 0)
    assert standing(shop, ONE) == (FileState.CHANGED, 0)
    shop.double.path.unlink()
    assert standing(shop, ONE) == (FileState.GONE, 0)


def test_next_is_the_first_that_is_not_solved(shop: Shop) -> None:
    shop.repository.solve(shop.double)
    shop.repository.solve(shop.row_sum)
    solved = dataclasses.replace(ONE, blob=blob_id(shop.double.path.read_bytes()))

    def following(*passes: Pass) -> str:
        upcoming = next_kata(all_statuses(shop.root, Ledger(passes)))
        return upcoming.kata.name if upcoming else ""

    assert following(solved) == "row_sum"
    assert following(ONE) == "double"
    # Without a ledger what was edited may be right: then the first stub.
    assert following() == "row_max"
    shop.double.path.unlink()
    assert following(solved) == "row_sum"
