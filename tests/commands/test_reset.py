"""`kata reset` and `kata restore`: what they print, what they write, what they never lose."""

from __future__ import annotations

import datetime
import io
import re
from pathlib import Path

import pytest

from grader.cli import main
from grader.exercise import repository
from grader.exercise.catalog import Kata
from pallascope.tools.regions import region_lines
from tests.support.repositories import Shop

NOON = datetime.datetime(2020, 1, 2, 12, 0, 0, 345)
FIRST, SECOND = "first = 1", "second = 2\nmore = 3"


class Terminal(io.StringIO):
    """A terminal's input."""

    def isatty(self) -> bool:
        return True


def save(shop: Shop, kata: Kata, body: str, minutes: int = 0) -> Path:
    """Attempt, and put aside so many minutes after noon."""
    shop.repository.solve(kata, body)
    saved = repository.reset(kata, NOON + datetime.timedelta(minutes=minutes))
    assert saved
    return saved


def saved_files(shop: Shop) -> list[Path]:
    return sorted((shop.root / ".kata" / "attempts").glob("*/*/*.py"))


# ---- reset ----


def test_reset_says_where_the_attempt_is(shop: Shop) -> None:
    shop.repository.solve(shop.double, FIRST)
    attempt = shop.double.path.read_text()
    said = shop.run("reset", "double")
    (saved,) = re.findall(r"saved +(\.kata/attempts/1_first/kata_01_double/\S+\.py)\n", said)
    assert (shop.root / saved).read_text() == attempt
    assert "reset  katas/1_first/kata_01_double.py:" in said
    assert "kata restore double" in said
    assert shop.double.untouched()


def test_reset_of_a_stub_does_nothing(shop: Shop) -> None:
    assert "double is as shipped: nothing to reset" in shop.run("reset", "double")
    assert "all 3 katas are as shipped" in shop.run("reset", "--all")
    assert not (shop.root / ".kata").exists()


def test_reset_brings_a_deleted_file_back(shop: Shop) -> None:
    shop.double.path.unlink()
    shop.run("reset", "double")
    assert shop.double.untouched()


@pytest.mark.parametrize(
    ("arguments", "several"),
    [(("first",), 2), (("row",), 2), (("--all",), 3)],
    ids=["track", "expression", "all"],
)
def test_several_are_reset_together(shop: Shop, arguments: tuple[str], several: int) -> None:
    every = (shop.double, shop.row_sum, shop.row_max)
    for kata in every:
        shop.repository.solve(kata, FIRST)
    said = shop.run("reset", *arguments, "--yes")
    assert said.count("saved  ") == said.count("reset  ") == several
    assert sum(kata.untouched() for kata in every) == len(saved_files(shop)) == several


def test_only_those_that_differ_are_asked_about(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.repository.solve(shop.row_max, FIRST)
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    said = shop.run("reset", "--all")
    assert said.startswith("  2_second/kata_01_row_max\nRestore this stub? ")
    assert "row_sum" not in said
    assert shop.row_max.untouched()


@pytest.mark.parametrize("answer", ["\n", "n\n", "all\n", ""], ids=range(4))
def test_anything_but_yes_is_no(shop: Shop, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kata in (shop.double, shop.row_sum):
        shop.repository.solve(kata, FIRST)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    said = shop.run("reset", "first", code=1)
    assert "Restore these 2 stubs? Your code is saved first. [y/N]" in said
    assert not shop.double.untouched()
    assert not saved_files(shop)


def test_without_a_terminal_several_need_a_yes(shop: Shop) -> None:
    shop.repository.solve(shop.double, FIRST)
    assert "no terminal to ask for confirmation: pass --yes" in shop.run("reset", "first", code=2)
    assert FIRST in shop.double.path.read_text()


def test_it_has_to_be_said_what_to_reset(shop: Shop) -> None:
    for arguments in ((), ("double", "--all")):
        assert "a name or --all" in shop.run("reset", *arguments, code=2)
    assert "no kata matches 'softmax'; kata list shows" in shop.run("reset", "softmax", code=2)
    assert "'a and' is not an expression" in shop.run("reset", "a and", code=2)


def test_a_broken_key_stops_before_anything_is_reset(shop: Shop) -> None:
    shop.repository.solve(shop.double, FIRST)
    shop.edit_key(shop.row_max, 'concept = "doubling"', "")
    assert "concept: needs a text" in shop.run("reset", "--all", "--yes", code=2)
    assert FIRST in shop.double.path.read_text()


def test_the_same_content_is_kept_once_under_its_last_time(shop: Shop) -> None:
    save(shop, shop.double, FIRST)
    second = save(shop, shop.double, SECOND, 1)
    again = save(shop, shop.double, FIRST, 2)
    assert saved_files(shop) == [second, again]


# ---- restore ----


def test_without_a_name_all_attempts_are_listed(shop: Shop) -> None:
    assert "no attempts are saved" in shop.run("restore")
    save(shop, shop.double, FIRST)
    save(shop, shop.double, SECOND, 1)
    save(shop, shop.row_max, "", 2)
    (saved_files(shop)[0].parent / "notes.py").write_text("not ours")
    gone = shop.root / ".kata/attempts/9_gone/kata_01_old/2020-01-01_00-00-00_000000.py"
    gone.parent.mkdir(parents=True)
    gone.write_text("\n\nno markers\n")
    assert shop.run("restore").splitlines() == [
        "1_first",
        "  double   1  2020-01-02 12:00  1 line    first = 1",
        "  double   2  2020-01-02 12:01  2 lines   second = 2",
        "2_second",
        "  row_max  1  2020-01-02 12:02  0 lines",
        "9_gone",
        "  old      1  2020-01-01 00:00  1 line    no markers",
        "restore one: kata restore NAME [NUMBER]",
    ]


@pytest.mark.parametrize(("number", "body"), [((), SECOND), (("1",), FIRST), (("2",), SECOND)])
def test_the_newest_comes_back_or_the_one_that_was_named(
    shop: Shop, number: tuple[str, ...], body: str
) -> None:
    files = [save(shop, shop.double, FIRST), save(shop, shop.double, SECOND, 1)]
    said = shop.run("restore", "double", *number)
    assert shop.double.path.read_bytes() == files[body == SECOND].read_bytes()
    assert f"attempt {1 + (body == SECOND)} of 2, 2020-01-02 12:0" in said
    assert "katas/1_first/kata_01_double.py:14" in said
    assert "saved" not in said
    assert len(saved_files(shop)) == 2
    assert "nothing to restore" in shop.run("restore", "double", *number)


def test_what_stands_there_is_saved_first(shop: Shop) -> None:
    save(shop, shop.double, FIRST)
    shop.repository.solve(shop.double, SECOND)
    present = shop.double.path.read_bytes()
    said = shop.run("restore", "double")
    assert FIRST in shop.double.path.read_text()
    (newest,) = re.findall(r"saved +(\S+\.py)\n", said)
    assert (shop.root / newest).read_bytes() == present
    shop.run("restore", "double")
    assert shop.double.path.read_bytes() == present
    assert len(saved_files(shop)) == 2


def test_edits_outside_of_the_regions_come_back_too(shop: Shop) -> None:
    """As long as the kata is still the one that they were made in."""
    shop.repository.solve(shop.double, FIRST)
    shop.double.path.write_bytes(b"import os  # caf\xe9\r\n" + shop.double.path.read_bytes())
    attempt = shop.double.path.read_bytes()
    shop.run("reset", "double")
    shop.run("restore", "double")
    assert shop.double.path.read_bytes() == attempt


def reword(shop: Shop, text: str) -> Kata:
    """Upstream changes an exercise around its region."""
    solution = shop.double.solution
    solution.write_text(text + solution.read_text())
    kata = Kata(shop.root, shop.double.track, shop.double.stem)
    kata.path.write_text(kata.stub_text())
    return kata


@pytest.mark.parametrize("windows", [False, True], ids=["unix", "windows"])
def test_after_an_update_the_regions_come_back(shop: Shop, windows: bool) -> None:
    file = save(shop, shop.double, SECOND)
    if windows:
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    kata = reword(shop, "# reworded\n")
    said = shop.run("restore", "double")
    text = kata.path.read_text()
    assert text.startswith("# reworded\n")
    assert region_lines(text) == (("    second = 2", "    more = 3"),)
    assert "The kata has changed since" in said
    assert "kata restore double 1 --whole" in said
    assert "The kata has" not in shop.run("restore", "double", "1", "--whole")
    assert kata.path.read_bytes() == file.read_bytes()


def test_regions_that_do_not_fit_are_brought_back_whole_or_not_at_all(shop: Shop) -> None:
    file = save(shop, shop.double, FIRST)
    kata = reword(shop, "# reworded\n")
    file.write_text("\n".join(file.read_text().split("# END SOLUTION")))
    attempt, before = file.read_bytes(), kata.path.read_bytes()
    said = shop.run("restore", "double", code=2)
    assert "doesn't have the regions of today's double" in said
    assert "kata restore double 1 --whole" in said
    assert kata.path.read_bytes() == before
    shop.run("restore", "double", "--whole")
    assert kata.path.read_bytes() == attempt


def test_an_attempt_of_before_the_stub_was_noted_can_be_restored(shop: Shop) -> None:
    file = save(shop, shop.double, FIRST)
    old = file.with_name("2020-01-02_12-00-00_000345.py")
    file.rename(old)
    (attempt,) = repository.attempts(shop.double)
    assert (attempt.stub, attempt.file) == ("", old)
    assert "The kata has changed" not in shop.run("restore", "double")
    assert shop.double.path.read_bytes() == old.read_bytes()


def test_a_number_that_is_not_there_is_told(shop: Shop) -> None:
    assert "no attempt at double is saved" in shop.run("restore", "double", code=2)
    save(shop, shop.double, FIRST)
    for number in ("0", "2"):
        said = shop.run("restore", "double", number, code=2)
        assert f"double has no attempt {number}: 1 is saved" in said
    with pytest.raises(SystemExit):
        main(["restore", "double", "newest"])


def test_a_deleted_file_comes_back_as_the_attempt(shop: Shop) -> None:
    file = save(shop, shop.double, FIRST)
    shop.double.path.unlink()
    shop.run("restore", "double")
    assert shop.double.path.read_bytes() == file.read_bytes()
