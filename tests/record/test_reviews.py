"""`kata review`: solved katas come back as stubs, in a copy."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import pytest

from grader.exercise.catalog import Kata
from grader.record.ledger import LEDGER, Ledger, Pass, read_ledger
from grader.record.status import FileState, KataStatus, reviews
from tests.support.repositories import Clone, Repository

TODAY = datetime.date(2026, 11, 28)
KATA = Kata(Path("/nowhere"), "1_first", "kata_01_double")
BLOB = "a" * 40


def recorded(days_ago: int, review: bool = False) -> Pass:
    versions = (("review", "2"),) if review else ()
    return Pass(KATA.id, BLOB, 3, TODAY - datetime.timedelta(days=days_ago), versions)


def due(passes: list[Pass], skipped: list[int]) -> int | None:
    """In how many days the next review is due, None if none is."""
    status = KataStatus(KATA, FileState.SOLVED, passes[0], BLOB)
    days = [TODAY - datetime.timedelta(days=days) for days in skipped]
    found = reviews([status], Ledger(tuple(passes)), {KATA.id: days})
    return (found[0].due - TODAY).days if found else None


@pytest.mark.parametrize(
    ("passed", "reviewed", "skipped", "days"),
    [
        (0, [], [], 2),
        (2, [], [], 0),
        (40, [], [], -38),
        (2, [0], [], 5),
        (40, [0], [], 5),
        (7, [5, 0], [], 23),
        (7, [5], [0], 23),
        (30, [28, 23, 0], [], 60),
        (90, [88, 83, 60, 0], [], None),
        (90, [88, 83], [60, 0], None),
    ],
)
def test_the_days_of_reviews(
    passed: int, reviewed: list[int], skipped: list[int], days: int | None
) -> None:
    passes = [recorded(passed), *(recorded(ago, review=True) for ago in reviewed)]
    assert due(passes, skipped) == days


def test_reviews_on_time_are_after_2_7_30_and_90_days() -> None:
    passes, days = [recorded(0)], []
    while (in_days := due(passes, [])) is not None:
        days.append(in_days)
        passes.append(recorded(-in_days, review=True))
    assert days == [2, 7, 30, 90]


@pytest.fixture
def solved(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """A clone with a kata solved ten days ago; pytest runs as in other tests."""
    day = datetime.date.today() - datetime.timedelta(days=10)
    clone.passed(clone.shop.double, day=str(day))
    clone.passed(clone.shop.row_sum, day=str(datetime.date.today()))
    clone.shop.run("commit")
    return clone


def copy_of(clone: Clone) -> Path:
    return clone.root / ".kata/review/katas/1_first/kata_01_double.py"


def solve_copy(clone: Clone, body: str) -> None:
    double = clone.shop.double
    text = double.solution.read_text().replace(Repository.BODY, body)
    copy_of(clone).write_text(text)


def test_the_overview_tells_what_is_due(solved: Clone) -> None:
    assert "to review  double   kata review\n" in solved.shop.run()


def test_a_review_is_graded_and_recorded(solved: Clone) -> None:
    shop = solved.shop
    answer = shop.double.path.read_bytes()
    said = shop.run("review")
    assert said.startswith(".kata/review/katas/1_first/kata_01_double.py:")
    assert copy_of(solved).read_text() == shop.double.stub_text()
    assert shop.run("review") == said
    solve_copy(solved, "o_ref[...] = x_ref[...] * 3")
    assert "your answer is unchanged. After a change: kata review" in shop.run("review", code=1)
    solve_copy(solved, "o_ref[...] = x_ref[...] + x_ref[...]")
    assert "reviewed  double ★★★; your answer is as it was" in shop.run("review")
    assert shop.double.path.read_bytes() == answer
    assert not copy_of(solved).exists()
    last = read_ledger(solved.root).passes[-1]
    assert (last.kata, last.date) == (shop.double.id, datetime.date.today())
    assert dict(last.versions)["review"] == "10"
    assert "no review is due; row_sum is due on" in shop.run("review")
    assert "to review" not in shop.run()
    assert "Review double" in shop.run("commit")
    assert "written again" in shop.run("progress", "--log")


def test_an_earlier_pass_of_the_copy_counts_for_nothing(
    solved: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is recorded if pytest doesn't run, whatever an earlier review has left."""
    solved.shop.run("review")
    solve_copy(solved, Repository.BODY)
    ledger = solved.root / LEDGER
    (solved.root / ".kata/review" / LEDGER).write_bytes(ledger.read_bytes())
    before = ledger.read_bytes()
    monkeypatch.setattr("grader.commands.attempts.subprocess.run", lambda *_, **__: None)
    assert "your answer is unchanged" in solved.shop.run("review", code=1)
    assert ledger.read_bytes() == before


def test_skipping_is_one_key(solved: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("s\n"))
    said = solved.shop.run("review")
    assert "double, solved 10 days ago. Enter: write it again, s: skip" in said
    assert "skipped  double" in said
    assert not copy_of(solved).exists()
    assert "no review is due" in solved.shop.run("review")


def test_a_review_that_has_begun_can_be_skipped(solved: Clone) -> None:
    solved.shop.run("review")
    assert "skipped  double" in solved.shop.run("review", "--skip")
    assert not copy_of(solved).exists()


def test_a_name_chooses_whatever_is_due(solved: Clone) -> None:
    assert "kata_02_row_sum.py" in solved.shop.run("review", "row_sum")
    assert "kata_02_row_sum.py" in solved.shop.run("review")  # it has begun
    said = solved.shop.run("review", "row_max", code=2)
    assert said == "kata: row_max isn't solved: todo\n"


def test_nothing_is_solved(clone: Clone) -> None:
    assert clone.shop.run("review").startswith("no review is due. kata review NAME")


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": ["x"]}', '{"a": [1]}'])
def test_damaged_notes_are_no_obstacle(solved: Clone, text: str) -> None:
    (solved.root / ".kata").mkdir(exist_ok=True)
    (solved.root / ".kata" / "skipped_reviews.json").write_text(text)
    assert "kata_01_double.py" in solved.shop.run("review")
