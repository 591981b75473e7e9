"""Where each device works on more than par's part of an array."""

from __future__ import annotations

from grader.checks.communication_cost import in_words, larger_parts
from pallascope.model import KernelCall, Role
from tests.pallascope.support.calls import call, operand


def product(rows: int, columns: int, name: str = "x_ref") -> KernelCall:
    block = (128, 128)
    return call(
        operand(name, (rows, columns), block, Role.INPUT),
        operand("y_ref", (256, columns), block, Role.INPUT),
        operand("o_ref", (rows, 256), block, Role.OUTPUT),
    )


def test_the_largest_part_names_the_phrase() -> None:
    parts = larger_parts([product(512, 1024)], [product(256, 512)])
    phrase, lines = in_words(parts)
    assert phrase == "each chip works on 4.0× par's part of x_ref"
    assert [part.operand for part in parts] == ["x_ref", "y_ref", "o_ref"]
    assert "Let in_specs cut x_ref, y_ref and o_ref" in " ".join(" ".join(lines).split())


def test_nothing_is_larger_where_parts_are_pars_or_names_are_others() -> None:
    assert larger_parts([product(256, 512)], [product(256, 512)]) == ()
    assert larger_parts([product(128, 512)], [product(256, 512)]) == ()
    assert larger_parts([product(512, 512, "a_ref")], [product(512, 512)]) == ()
