"""What katas build on, as their docstrings say, and the way that leads to one."""

from __future__ import annotations

import pytest

from grader.exercise.catalog import Kata, katas
from grader.exercise.readmes import labelled_text, path_to, prerequisites
from tests.support.repositories import Shop

LONG = "Needs     a_kata,\n          another\nRead on   A page:\n          https://x.org/y\n"


def need(kata: Kata, names: str) -> None:
    """Have its docstring say that it needs these; an untouched file stays the stub."""
    untouched, text = kata.untouched(), kata.solution.read_text()
    kata.solution.write_text(text.replace('element."""', f'element.\n\nNeeds     {names}\n"""', 1))
    if untouched:
        kata.path.write_text(kata.stub_text())


def test_a_label_takes_the_lines_that_go_on_below_its_text() -> None:
    assert labelled_text(LONG, "Needs") == "a_kata,\nanother"
    assert labelled_text(LONG, "Read on") == "A page:\nhttps://x.org/y"
    assert labelled_text(LONG, "Reads") == ""
    assert labelled_text("    Needs     indented", "Needs") == ""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("row_sum, double", ("row_sum", "double")),
        ("row_sum,\n          double", ("row_sum", "double")),
        ("nothing", ()),
    ],
    ids=["two", "two-lines", "nothing"],
)
def test_needs_are_names(shop: Shop, names: str, expected: tuple[str, ...]) -> None:
    assert prerequisites(shop.row_max) == ()
    need(shop.row_max, names)
    assert prerequisites(shop.row_max) == expected


def test_only_the_docstring_counts(shop: Shop) -> None:
    text = shop.double.solution.read_text()
    shop.double.solution.write_text(f'{text}\nTEXT = """\nNeeds     row_sum\n"""\n')
    assert prerequisites(shop.double) == ()


def test_a_way_holds_the_needs_of_needs_in_the_order_of_the_map(shop: Shop) -> None:
    every = katas(shop.root)
    assert path_to(shop.row_max, every) == (shop.row_max,)
    need(shop.row_max, "row_sum, unheard_of")
    assert path_to(shop.row_max, every) == (shop.row_sum, shop.row_max)
    need(shop.row_sum, "double")
    assert path_to(shop.row_max, every) == (shop.double, shop.row_sum, shop.row_max)
    need(shop.double, "row_max")
    assert len(path_to(shop.row_max, every)) == 3, "a circle ends"
