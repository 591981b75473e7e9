"""Solution regions: finding them, and filling them with something else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pallascope.tools.regions import (
    BEGIN,
    END,
    RegionError,
    fill_dedented,
    fill_regions,
    region_lines,
    regions,
)

TWO = """import jax

def kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    if x_ref.shape:
        o_ref[...] = x_ref[...]

    # a comment
    # END SOLUTION

def launch(x):
        # BEGIN SOLUTION
        return x
        # END SOLUTION
"""

lines = st.text(alphabet="ab #.=()[]", min_size=1, max_size=12).map(lambda s: "x" + s.rstrip())
bodies = st.lists(lines, min_size=1, max_size=4).map("\n".join)


def test_regions_are_found_in_order_without_their_indentation() -> None:
    first, second = regions(TWO)
    assert (first.begin, first.end, first.first, first.indent) == (4, 9, 5, "    ")
    assert first.body == "if x_ref.shape:\n    o_ref[...] = x_ref[...]\n\n# a comment"
    assert (second.begin, second.end, second.first, second.indent) == (12, 14, 13, " " * 8)
    assert second.body == "return x"


def test_a_region_contains_what_the_learner_writes_not_its_markers() -> None:
    region = regions(TWO)[0]
    assert [line for line in range(1, 15) if line in region] == [5, 6, 7, 8]


def test_an_empty_region_has_an_empty_body() -> None:
    (region,) = regions(f"{BEGIN}\n{END}\n")
    assert region.body == ""
    assert 1 not in region
    assert 2 not in region


@pytest.mark.parametrize(
    "line",
    ["x = 1  # BEGIN SOLUTION", "# BEGIN SOLUTION of the exercise", "#BEGIN SOLUTION", "# begin"],
)
def test_only_a_marker_alone_on_its_line_counts(line: str) -> None:
    assert regions(line + "\n") == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"a\n{BEGIN}\nb\n{BEGIN}\n{END}\n", 4, "inside the region that starts at 2"),
        (f"a\n{END}\n", 2, "without a '# BEGIN SOLUTION' above"),
        (f"{BEGIN}\n{END}\n{END}\n", 3, "without a '# BEGIN SOLUTION' above"),
        (f"a\nb\n{BEGIN}\nc\n", 3, "without an '# END SOLUTION' below"),
    ],
    ids=["nested", "no-begin", "two-ends", "no-end"],
)
def test_markers_that_do_not_pair_up_are_told_with_their_line(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(RegionError) as raised:
        regions(text)
    assert raised.value.line == line
    assert f"line {line}: " in str(raised.value)
    assert words in str(raised.value)


def test_blank_replaces_the_bodies_and_nothing_else() -> None:
    expected = """import jax

def kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "one"
    )
    # END SOLUTION

def launch(x):
        # BEGIN SOLUTION
        first

        second
        # END SOLUTION
"""
    one = 'raise NotImplementedError(\n    "one"\n)'
    assert fill_dedented(TWO, [one, "\nfirst\n\nsecond\n"]) == expected


@pytest.mark.parametrize("fillings", [[], ["a"], ["a", "b", "c"]], ids=len)
def test_blank_wants_one_filling_for_each_region(fillings: list[str]) -> None:
    with pytest.raises(RegionError, match=f"2 regions, but {len(fillings)} texts"):
        fill_dedented(TWO, fillings)


@settings(deadline=None, database=None)
@given(st.tuples(bodies, bodies), st.tuples(bodies, bodies))
def test_what_was_filled_in_is_read_back(one: tuple[str, str], two: tuple[str, str]) -> None:
    filled = fill_dedented(TWO, one)
    assert tuple(region.body for region in regions(filled)) == one
    # Nothing of a first filling is left after a second.
    assert fill_dedented(filled, two) == fill_dedented(TWO, two)


@pytest.mark.parametrize("character", ["\x0c", "\u2028", "\x1c"], ids=["FF", "LS", "FS"])
def test_lines_are_the_editors_lines(character: str) -> None:
    """Python's tokenizer and editors end a line at a newline alone."""
    text = f"# a{character}b\n{BEGIN}\npass\n{END}\n"
    assert regions(text)[0].begin == 2
    assert fill_dedented(text, ["pass"]) == text


def test_what_was_written_is_put_back_line_by_line() -> None:
    first, second = region_lines(TWO)
    assert first[1] == "        o_ref[...] = x_ref[...]"
    assert first[2:] == ("", "    # a comment")
    assert fill_regions(TWO, (first, second)) == TWO
    odd = ("", "\ttab  ", "  # less", "")
    assert region_lines(fill_regions(TWO, (odd, ()))) == (odd, ())
    with pytest.raises(RegionError, match="2 regions, but 1 bodies"):
        fill_regions(TWO, (odd,))
