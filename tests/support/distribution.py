"""Distributes tests among several workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from grader.exercise.catalog import katas

#: Files whose tests are few and long: begun last, one of them would be waited for alone.
LONG = (
    "test_faults",
    "test_plugin",
    "test_determinism",
    "test_compiled_schedules",
    "test_block_rules",
)


class Distribution(LoadScopeScheduling):
    """All tests of one exercise go to one worker, wherever they stand, and all of one file.

    So what was computed of a solution is computed once, and a file's fixture is set up once.
    """

    def _split_scope(self, nodeid: str) -> str:
        return exercise_of(nodeid) or super()._split_scope(nodeid)


def exercise_of(nodeid: str) -> str:
    """The exercise that a test is about, which is its first parameter; "" for none."""
    found = re.search(r"\[([a-z0-9_]+)[-\]]", nodeid)
    return found[1] if found and "/course/" in nodeid else ""


def in_order(items: list[pytest.Item], root: Path) -> list[pytest.Item]:
    """Long files first, then the other files, then exercises: the last, which are the longest,
    before the first. So that the workers end at the same time."""
    order = {kata.name: number for number, kata in enumerate(katas(root, "solutions"))}

    def place(item: pytest.Item) -> tuple[bool, int, bool]:
        exercise = exercise_of(item.nodeid)
        return exercise in order, -order.get(exercise, 0), item.path.stem not in LONG

    return sorted(items, key=place)
