"""The ledger: its lines, what they say of a content, and how git merges them."""

from __future__ import annotations

import dataclasses
import datetime
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.model import MOST_STARS
from grader.record.ledger import HEADER, LEDGER, Corrupt, Ledger, Pass, append, parsed, passed, read
from grader.record.status import Known, present, presents, upcoming
from grader.tools.git import blob_id
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
        st.integers(1, MOST_STARS),
        st.dates(),
        st.lists(versions, max_size=4).map(tuple),
    )
)
def test_a_line_reads_back_as_its_pass(one: Pass) -> None:
    assert passed(str(one)) == one
    assert parsed(f"\ufeff# a comment\n\n{one}\r\n") == Ledger((one,))


def test_the_form_of_a_line() -> None:
    assert str(ONE) == LINE
    assert str(dataclasses.replace(ONE, versions=())) == LINE.partition("  grader")[0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1_first/kata_01_double  " + BLOB, "2 of the 4 fields"),
        (LINE.replace("1_first", "first"), "'first/kata_01_double' is no kata"),
        (LINE.replace(BLOB, BLOB[:-1]), "40 hex digits"),
        (LINE.replace("  2  ", "  4  "), "'4' stars, not 1 to 3"),
        (LINE.replace("  2  ", "  0  "), "'0' stars"),
        (LINE.replace("11-18", "11-31"), "'2026-11-31' is no day"),
        (LINE.replace("libtpu=-", "libtpu"), "'libtpu' is no NAME=VERSION"),
        ("<<<<<<< HEAD", "git's mark of a conflict"),
        ("=======", "git's mark of a conflict"),
        (">>>>>>> other", "git's mark of a conflict"),
        ("\ufffd\0", "1 of the 4 fields"),
    ],
    ids=range(11),
)
def test_a_line_that_is_no_pass_says_why(line: str, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        passed(line)


def test_a_corrupt_line_is_skipped_with_its_number() -> None:
    found = parsed(f"{HEADER}{LINE[:30]}\n{LINE}\n")
    assert found.passes == (ONE,)
    (warning,) = found.warnings
    assert warning.startswith(f"{LEDGER}:3: 2 of the 4 fields")


def test_both_sides_of_a_conflict_count() -> None:
    other = dataclasses.replace(ONE, blob=OTHER)
    found = parsed(f"<<<<<<< HEAD\n{ONE}\n=======\n{other}\n>>>>>>> theirs\n")
    assert found.passes == (ONE, other)
    assert [warning.split(":")[1] for warning in found.warnings] == ["1", "3", "5"]


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
    assert not ledger.lacks(again)
    assert not Ledger((dataclasses.replace(ONE, stars=3),)).lacks(again)
    assert ledger.lacks(dataclasses.replace(ONE, stars=3))
    assert ledger.lacks(dataclasses.replace(ONE, blob=OTHER))


# ---- the file ----


def test_the_first_pass_makes_the_file(root: Path) -> None:
    assert read(root) == Ledger()
    append(root, [ONE])
    assert (root / LEDGER).read_bytes().decode() == f"{HEADER}{LINE}\n"
    assert read(root) == Ledger((ONE,))


@pytest.mark.parametrize("before", [LINE, f"{LINE}\r\n", "no pass", "\xff\n"], ids=range(4))
def test_what_stands_there_is_only_added_to(root: Path, before: str) -> None:
    (root / LEDGER).write_bytes(before.encode("latin-1"))
    other = dataclasses.replace(ONE, blob=OTHER)
    append(root, [other])
    text = (root / LEDGER).read_bytes()
    assert text.startswith(before.encode("latin-1"))
    assert text.endswith(f"\n{other}\n".encode())
    assert text.count(b"\n") == 2
    assert read(root).passes[-1] == other


def test_a_ledger_that_cannot_be_read_is_empty_and_says_so(root: Path) -> None:
    (root / LEDGER).mkdir()
    found = read(root)
    assert found.passes == ()
    assert found.warnings == (f"{LEDGER} cannot be read: Is a directory",)
    with pytest.raises(OSError, match="directory"):
        append(root, [ONE])


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
    found = read(clone.root)
    assert found.warnings == ()
    assert set(found.passes) == {first, theirs, ours}
    assert {one.known for one in presents(clone.root, found)} == {Known.SOLVED}


# ---- where a kata stands ----


def standing(shop: Shop, *passes: Pass) -> tuple[Known, int]:
    one = present(shop.double, Ledger(passes))
    return one.known, one.stars


def test_a_content_that_is_known_is_solved_whatever_its_line_ends(shop: Shop) -> None:
    shop.repository.solve(shop.double)
    one = dataclasses.replace(ONE, blob=blob_id(shop.double.path.read_bytes()))
    assert standing(shop, one) == (Known.SOLVED, 2)
    shop.double.path.write_bytes(shop.double.path.read_bytes().replace(b"\n", b"\r\n"))
    assert standing(shop, one) == (Known.SOLVED, 2)


def test_a_content_that_is_not_known_earns_nothing(shop: Shop) -> None:
    assert standing(shop) == (Known.TODO, 0)
    assert standing(shop, ONE) == (Known.TODO, 0)
    shop.repository.solve(shop.double)
    assert standing(shop) == (Known.EDITED, 0)
    assert standing(shop, ONE) == (Known.CHANGED, 0)
    shop.double.path.unlink()
    assert standing(shop, ONE) == (Known.GONE, 0)


def test_next_is_the_first_that_is_not_solved(shop: Shop) -> None:
    shop.repository.solve(shop.double)
    shop.repository.solve(shop.row_sum)
    one = dataclasses.replace(ONE, blob=blob_id(shop.double.path.read_bytes()))

    def following(*passes: Pass) -> str:
        found = upcoming(presents(shop.root, Ledger(passes)))
        return found.kata.name if found else ""

    assert following(one) == "row_sum"
    assert following(ONE) == "double"
    # Without a ledger what was edited may be right: then the first stub.
    assert following() == "row_max"
    shop.double.path.unlink()
    assert following(one) == "row_sum"
