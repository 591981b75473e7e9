"""`kata list --path` and `kata next`: they go by what katas need."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from grader.record.ledger import Ledger
from grader.record.status import all_statuses, next_kata, status_of
from tests.exercise.test_prerequisites import need
from tests.support.repositories import Clone, Shop
from tests.watching.test_watch import Desk, KeyPressed


def test_a_path_lists_what_leads_there_and_where_to_go_on(clone: Clone) -> None:
    shop = clone.shop
    need(shop.row_max, "double")
    assert shop.run("list", "--path", "row_max").splitlines() == [
        "1_first",
        "  01  double   todo    doubling",
        "2_second",
        "  01  row_max  todo    doubling",
        "edited, changed: pytest -k kata shows whether it is right",
        "the shortest path to row_max: 2 katas, 0 solved; next: double",
    ]
    clone.passed(shop.double)
    said = shop.run("list", "--path", "row_max")
    assert "  01  double   solved ★★★  doubling" in said
    assert "2 katas, 1 solved; next: row_max" in said
    clone.passed(shop.row_max)
    assert said.replace("1 solved; next: row_max", "2 solved") != said
    assert shop.run("list", "--path", "row_max").endswith("2 katas, 2 solved\n")


def test_a_path_needs_one_name(shop: Shop) -> None:
    assert "no kata matches 'row_maks'; did you mean row_max" in shop.run(
        "list", "--path", "row_maks", code=2
    )
    assert "'row' matches 2 katas" in shop.run("list", "--path", "row", code=2)
    assert "not both" in shop.run("list", "double", "--path", "row_max", code=2)


@pytest.mark.parametrize("gone", [False, True])
def test_next_is_one_whose_needs_are_solved(shop: Shop, gone: bool) -> None:
    """A kata that is gone is not offered, and what needs it has to wait."""
    need(shop.row_sum, "double")
    if gone:
        shop.double.path.unlink()
    upcoming = next_kata(all_statuses(shop.root, Ledger()))
    assert upcoming
    assert upcoming.kata == (shop.row_max if gone else shop.double)


def test_next_is_the_first_where_each_needs_another(shop: Shop) -> None:
    need(shop.row_sum, "double")
    upcoming = next_kata([status_of(shop.row_sum, Ledger())], {"double"})
    assert upcoming
    assert upcoming.kata == shop.row_sum


def test_next_in_a_watch_passes_over_what_has_to_wait(shop: Shop) -> None:
    need(shop.row_sum, "double")
    desk = Desk(shop)
    desk.watch.begin()
    assert desk.pool.last == ("prepare", "double", 3)
    desk.watch.handle(KeyPressed("n"))
    assert desk.pool.last == ("prepare", "row_max", 3)


# ---- kata start ----


class Terminal(io.StringIO):
    """An input of a terminal, with its answers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def asked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs `kata start` with these answers."""

    def run(*answers: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", Terminal("".join(f"{line}\n" for line in answers)))
        return shop.run("start", code=code)

    need(shop.row_max, "row_sum")
    return run


def test_start_proposes_a_path(shop: Shop, asked: Callable[..., str]) -> None:
    said = asked("n", "y", "2")
    assert "thinking_in_jax" in said
    assert "you don't write for threads" in said
    assert "2 of 3 katas lead to row_max: kata list --path. Begin: kata next" in said
    assert "double" not in shop.run("list", "--path")
    assert "kata_02_row_sum.py" in shop.run("next")
    assert "kata_02_row_sum.py" in shop.run()


def test_start_without_a_goal_takes_everything(shop: Shop, asked: Callable[..., str]) -> None:
    asked("y", "n", "2")
    said = asked("y", "n", "")
    assert "3 katas, in the order of kata list" in said
    assert "thinking_in_jax" not in said
    assert "threads" not in said
    assert "kata_01_double.py" in shop.run("next")
    assert "no goal is chosen: kata start" in shop.run("list", "--path", code=2)


def test_start_with_another_answer(shop: Shop, asked: Callable[..., str]) -> None:
    assert "'7' is none of the numbers 1, 2" in asked("", "", "7", code=2)
    assert "kata_01_double.py" in shop.run("next")


def test_start_without_a_terminal(shop: Shop) -> None:
    assert "kata start asks questions: run it in a terminal" in shop.run("start", code=2)


def test_a_goal_that_is_reached_or_gone_is_forgotten(shop: Shop, asked: Callable[..., str]) -> None:
    asked("", "", "2")
    (shop.root / ".kata" / "goal.txt").write_text("nonsense\n")
    assert "kata_01_double.py" in shop.run("next")
