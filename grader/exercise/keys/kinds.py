"""The kinds of kata, and the parts of an answer key that only one kind has."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from grader.exercise.keys.table import Table

#: What the key of a kata without a kernel to grade has no use for.
OF_A_KERNEL = ("kernel", "outside", "outside_floats", "full_precision", "par", "slack", "roundings")


class Kind(enum.Enum):
    """What a learner writes, and so what is graded."""

    KERNEL = "kernel"  # a kernel or its launch
    TABLES = "tables"  # plain jax.numpy; the values are graded
    CASE_FILE = "case-file"  # somebody's wrong kernel, to be repaired
    PREDICTIONS = "predictions"  # numbers about programs, beside those that are measured
    TEST = "test"  # a test, beside kernels that it should tell apart


@dataclass(frozen=True, slots=True)
class Predictions:
    """Of a kata that asks for numbers: about which functions of its file, and how near.

    `within` is a fraction of what is measured.
    """

    programs: tuple[str, ...]
    within: float


@dataclass(frozen=True, slots=True)
class Planted:
    """A version of the kernel under test: replace `old` by `new` in the solution's file.

    It is wrong, unless it is `right`, only written in another way. `title` goes on from "a kernel
    that".
    """

    title: str
    old: str
    new: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Tested:
    """Of a kata that asks for a test: the launch under test, and the versions of it."""

    launch: str
    planted: tuple[Planted, ...]


def predictions_of(source: Table) -> Predictions | None:
    """[predictions], or None. Raises KeyProblem."""
    if (table := source.data.get("predictions")) is None:
        return None
    if not isinstance(table, dict):
        raise source.fail("predictions", 'needs a table: programs = ["NAME", …], within = 0.20')
    source.known(table, ["programs", "within"], "predictions.")
    inner = Table(source.file, table)
    programs = inner.texts("programs", ())
    if not programs or not all(name.isidentifier() for name in programs):
        raise source.fail("predictions.programs", "needs names of functions of the file")
    if len(set(programs)) < len(programs):
        raise source.fail("predictions.programs", "names a function twice")
    within = table.get("within", 0.20)
    if type(within) is not float or not 0 < within < 1:
        raise source.fail("predictions.within", f"needs a fraction below 1, not {within!r}")
    _nothing_of_a_kernel(source, "predictions are graded")
    return Predictions(programs, within)


def tested_of(source: Table) -> Tested | None:
    """`tested` and [[planted]], or None. Raises KeyProblem."""
    if "tested" not in source.data:
        if "planted" in source.data:
            raise source.fail("tested", "needs the name of the launch that [[planted]] change")
        return None
    launch = source.text("tested")
    if not launch.isidentifier():
        raise source.fail("tested", f"needs the name of a function of the file, not {launch!r}")
    tables = source.data.get("planted", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise source.fail("planted", "needs [[planted]] tables")
    planted = tuple(_planted(source, f"planted[{i}]", t) for i, t in enumerate(tables))
    wrong = [one for one in planted if not one.right]
    if not wrong:
        raise source.fail("planted", "needs at least one wrong version to be found")
    if twice := [one.title for one in planted if [p.title for p in planted].count(one.title) > 1]:
        raise source.fail("planted", f"two are called {twice[0]!r}")
    for name in ("cases", "production", "alike"):
        if name in source.data:
            raise source.fail(name, "means nothing where a test is graded: it draws its own sizes")
    _nothing_of_a_kernel(source, "a test is graded")
    return Tested(launch, planted)


def _planted(source: Table, key: str, table: dict[str, Any]) -> Planted:
    source.known(table, ["title", "old", "new", "right"], f"{key}.")
    for name in ("title", "old", "new"):
        if not isinstance(table.get(name), str) or (name != "new" and not table[name]):
            raise source.fail(f"{key}.{name}", "needs a text")
    right = table.get("right", False)
    if not isinstance(right, bool):
        raise source.fail(f"{key}.right", f"needs true or false, not {right!r}")
    return Planted(table["title"], table["old"], table["new"], right)


def _nothing_of_a_kernel(source: Table, what: str) -> None:
    for name in (*OF_A_KERNEL, "operand_roundings", "stub"):
        if name in source.data:
            raise source.fail(name, f"means nothing where {what}")
