"""Every session tells wrong kernels from right ones: a key says what its cases have alike."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from tests.support.contract import demand
from tests.support.repositories import ROOT
from tests.support.session_coverage import Alike, extents_of, found_alike

EVERY = katas(ROOT, "solutions")
SESSIONS = range(500)

each = pytest.mark.parametrize("exercise", EVERY, ids=lambda kata: kata.name)


@each
def test_no_session_has_sizes_alike(exercise: Kata) -> None:
    key, found = exercise.key, everything_alike(exercise)
    allowed = {frozenset(map(str.strip, what.split(","))) for what in key.alike}
    for alike, seed in found.values():
        demand(
            frozenset(alike.what.split(", ")) in allowed,
            exercise.key_path,
            f"with seed {seed}, {alike.words} of the session",
            "Have [cases] draw what differs, in rows of several names where chance may not decide; "
            f'or say under [alike] why it may be so: "{alike.what}" = "…"',
        )
    met = {frozenset(what.split(", ")) for what in found}
    for what in key.alike:
        demand(
            frozenset(map(str.strip, what.split(","))) in met,
            exercise.key_path,
            f"no session has alike what [alike] allows: {what}",
            "Delete the entry",
        )


def everything_alike(exercise: Kata) -> dict[str, tuple[Alike, int]]:
    """What some session has alike, with the first seed that does."""
    found: dict[str, tuple[Alike, int]] = {}
    extents = extents_of(exercise)
    for seed in SESSIONS:
        cases = [c for c in draw(exercise.id, exercise.key, seed) if not c.production]
        for alike in found_alike(exercise.key, extents, cases):
            found.setdefault(alike.what, (alike, seed))
    return found


@each
def test_every_session_sums_over_blocks_in_a_narrow_dtype(exercise: Kata) -> None:
    """An accumulator that rounds is as good as any other where one block is all of the sum."""
    narrow = set(exercise.key.dtypes) - {"float32"}
    for total, block in summed_over(exercise) if "float32" in exercise.key.dtypes else ():
        for seed in SESSIONS if narrow else ():
            cases = [c for c in draw(exercise.id, exercise.key, seed) if not c.production]
            demand(
                any(c.dtype in narrow and c.sizes[total] > c.sizes[block] for c in cases),
                exercise.key_path,
                f"with seed {seed}, no case in {' or '.join(sorted(narrow))} has more than one "
                f"block of {total}, over which it sums",
                f'Have [cases] deal dtype in rows with {total}: "{total}, dtype" = …',
            )


def summed_over(exercise: Kata) -> list[tuple[str, str]]:
    """Sizes that are cut into blocks, with these: dimensions of arguments, and of no result."""
    given, returned = dimensions(exercise)
    pairs = (extent.split("//") for extent in extents_of(exercise))
    sizes = (given - returned) & set(exercise.key.choices)
    return [
        (pair[0], pair[1])
        for pair in pairs
        if len(pair) == 2 and pair[0] in sizes and pair[1] in exercise.key.choices
    ]


def dimensions(exercise: Kata) -> tuple[set[str], set[str]]:
    """The names in the annotations of what a spec takes, and of what it returns."""
    for function in ast.parse(exercise.solution.read_bytes()).body:
        if isinstance(function, ast.FunctionDef) and function.name == f"{exercise.name}_spec":
            returned = [function.returns] if function.returns else []
            return _names([function.args]), _names(returned)
    return set(), set()


def _names(annotations: Sequence[ast.AST]) -> set[str]:
    parts = (part for annotation in annotations for part in ast.walk(annotation))
    texts = (str(part.value) for part in parts if isinstance(part, ast.Constant))
    return set(" ".join(texts).split())
