"""Every session tells wrong kernels from right ones: a key says what its cases have alike."""

from __future__ import annotations

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from tests.support.alike import Alike, extents_of, found_alike
from tests.support.contract import demand
from tests.support.repositories import ROOT

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
