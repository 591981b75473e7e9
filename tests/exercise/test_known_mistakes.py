"""The solution with a known mistake made, and which mistake a text comes nearest to."""

from __future__ import annotations

import pytest

from grader.exercise.answer_key import Mistake
from grader.exercise.catalog import Kata, katas
from grader.exercise.mutants import likeliest_mistakes, wrong_version
from pallascope.model import Check
from tests.support.repositories import ROOT

SOLUTION = """def kernel(x_ref, o_ref):
    scale = 2
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] * scale + 10
    # END SOLUTION
"""


def mistake(old: str, new: str) -> Mistake:
    return Mistake(f"writes {new}", old, new, Check.VALUES, "says")


CLEARS = mistake("x_ref[...] * scale + 10", "jnp.zeros_like(o_ref)")
SHIFTS = mistake("+ 10", "+ 11")
NOWHERE = mistake("scale = 2", "scale = 3")


def test_a_mistake_is_made_inside_the_regions() -> None:
    made = wrong_version(SOLUTION, SHIFTS)
    assert made == SOLUTION.replace("+ 10", "+ 11")
    with pytest.raises(ValueError, match="occurs 0 times in the solution's regions"):
        wrong_version(SOLUTION, NOWHERE)


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("o_ref[...] = x_ref[...] * scale + 11", SHIFTS),
        ("y = x_ref[...] * scale\no_ref[...] = y + 11", SHIFTS),
        ("o_ref[...] = jnp.zeros_like(o_ref)", CLEARS),
        ("no Python at all (", CLEARS),
    ],
)
def test_the_nearest_text_is_the_likeliest(written: str, nearest: Mistake) -> None:
    text = SOLUTION.replace("o_ref[...] = x_ref[...] * scale + 10", written)
    first, version = likeliest_mistakes(text, SOLUTION, (CLEARS, SHIFTS, NOWHERE))[0]
    assert first == nearest
    assert version == wrong_version(SOLUTION, nearest)


@pytest.mark.parametrize("exercise", katas(ROOT, "solutions"), ids=lambda kata: kata.name)
def test_each_known_mistake_comes_nearest_to_itself(exercise: Kata) -> None:
    """So that no other's title is told of it."""
    text = exercise.solution.read_text()
    for each in exercise.key.mistakes:
        versions = likeliest_mistakes(wrong_version(text, each), text, exercise.key.mistakes)
        assert versions[0][0] == each
