"""`kata list --path` and `kata next`: they go by what katas need."""

from __future__ import annotations

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
