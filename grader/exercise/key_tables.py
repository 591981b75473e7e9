"""Reads tables of an answer key: [predictions], [[planted]], [mesh], [random], `target`.

Errors are KeyProblems that name the file, the key and the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallascope.model import Axes, mesh_size
from pallascope.tools.text import did_you_mean


class KeyProblem(ValueError):
    """An answer key that can't be used. The text names the file, the key and the reason."""

    def __init__(self, file: Path, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}")


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table of a TOML file. Its methods raise KeyProblem for values of another type."""

    file: Path
    data: dict[str, Any]

    def fail(self, key: str, reason: str) -> KeyProblem:
        return KeyProblem(self.file, key, reason)

    def require_known(self, table: dict[str, Any], names: list[str], prefix: str = "") -> None:
        for name in table:
            if name not in names:
                advice = did_you_mean(name, names) or f"known: {', '.join(names)}"
                raise self.fail(prefix + name, f"unknown key; {advice}")

    def text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(name, "needs a text that is not empty")
        return value

    def texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.data.get(name, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(name, "needs a list of texts")
        return tuple(value)

    def boolean(self, name: str, default: bool) -> bool:
        value = self.data.get(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, f"needs true or false, not {value!r}")
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        value = self.data.get(name, default)
        if type(value) is not int or not low <= value <= high:
            raise self.fail(name, f"needs a whole number from {low} to {high}, not {value!r}")
        return value


#: Keys that only katas with a kernel may have.
KERNEL_KEYS = ("kernel", "outside", "outside_floats", "full_precision", "par", "slack", "roundings")


class KataKind(enum.Enum):
    """The kind of a kata: what the learner writes."""

    KERNEL = "kernel"  # a kernel or its launch
    TABLES = "tables"  # plain jax.numpy; the values are graded
    CASE_FILE = "case-file"  # somebody's wrong kernel, to be repaired
    PREDICTIONS = "predictions"  # numbers about programs, compared with measured ones
    TEST = "test"  # a test, run on right and wrong kernels


@dataclass(frozen=True, slots=True)
class Predictions:
    """[predictions]: functions of the file, and the tolerance as a fraction of the measurement."""

    programs: tuple[str, ...]
    within: float


@dataclass(frozen=True, slots=True)
class Planted:
    """A version of the kernel under test: replace `old` by `new` in the solution's file.

    It is wrong unless `right` is set. `title` completes "a kernel that".
    """

    title: str
    old: str
    new: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Tested:
    """The launch under test, and its versions."""

    launch: str
    planted: tuple[Planted, ...]


def predictions_of(source: TomlTable) -> Predictions | None:
    """[predictions], or None. Raises KeyProblem."""
    if (table := source.data.get("predictions")) is None:
        return None
    if not isinstance(table, dict):
        raise source.fail("predictions", 'needs a table: programs = ["NAME", …], within = 0.20')
    source.require_known(table, ["programs", "within"], "predictions.")
    inner = TomlTable(source.file, table)
    programs = inner.texts("programs", ())
    if not programs or not all(name.isidentifier() for name in programs):
        raise source.fail("predictions.programs", "needs names of functions of the file")
    if len(set(programs)) < len(programs):
        raise source.fail("predictions.programs", "names a function twice")
    within = table.get("within", 0.20)
    if type(within) is not float or not 0 < within < 1:
        raise source.fail("predictions.within", f"needs a fraction below 1, not {within!r}")
    _require_no_kernel_keys(source, "[predictions]")
    return Predictions(programs, within)


def tested_of(source: TomlTable) -> Tested | None:
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
    wrong = [version for version in planted if not version.right]
    if not wrong:
        raise source.fail("planted", "needs at least one wrong version")
    if twice := [one.title for one in planted if [p.title for p in planted].count(one.title) > 1]:
        raise source.fail("planted", f"two have the title {twice[0]!r}")
    for name in ("cases", "production", "alike"):
        if name in source.data:
            raise source.fail(name, "has no meaning with `tested`: a test chooses its own sizes")
    _require_no_kernel_keys(source, "`tested`")
    return Tested(launch, planted)


def _planted(source: TomlTable, key: str, table: dict[str, Any]) -> Planted:
    source.require_known(table, ["title", "old", "new", "right"], f"{key}.")
    for name in ("title", "old", "new"):
        if not isinstance(table.get(name), str) or (name != "new" and not table[name]):
            raise source.fail(f"{key}.{name}", "needs a text")
    right = table.get("right", False)
    if not isinstance(right, bool):
        raise source.fail(f"{key}.right", f"needs true or false, not {right!r}")
    return Planted(table["title"], table["old"], table["new"], right)


def _require_no_kernel_keys(source: TomlTable, present: str) -> None:
    for name in (*KERNEL_KEYS, "operand_roundings", "stub"):
        if name in source.data:
            raise source.fail(name, f"has no meaning with {present}")


#: The number of devices in the smallest slice of a chip that libtpu compiles for.
MAX_DEVICES = 4
MESH = "mesh"


def mesh_of(source: TomlTable, cases: Collection[str]) -> Axes:
    """[mesh]: the named axes, outermost first; () without such a table. Raises KeyProblem.

    With a mesh, the launch has a keyword `mesh`, so no name in `cases` may be "mesh".
    """
    table = source.data.get(MESH)
    if table is None:
        return ()
    if not isinstance(table, dict) or not table:
        raise source.fail(MESH, "needs a table of axes and their sizes, such as x = 4")
    for name, size in table.items():
        if not name.isidentifier():
            raise source.fail(f"{MESH}.{name}", "the name of an axis must be a Python name")
        if type(size) is not int or size < 2:
            raise source.fail(f"{MESH}.{name}", f"needs 2 or more devices, not {size!r}")
    axes = tuple(table.items())
    if mesh_size(axes) not in (2, MAX_DEVICES):
        count = mesh_size(axes)
        raise source.fail(MESH, f"has {count} devices; needs 2 or {MAX_DEVICES}")
    if MESH in cases:
        raise source.fail(f"cases.{MESH}", "is the name of the launch's mesh; use another")
    for name in ("predictions", "tested", "random"):
        if name in source.data:
            raise source.fail(MESH, f"has no meaning with {name}")
    if source.data.get("kernel") is False:
        raise source.fail(MESH, "has no meaning without a kernel")
    return axes


@dataclass(frozen=True, slots=True)
class Randomness:
    """[random]: how a kata's results are random.

    `seed` names the spec's integer input that determines all random bits. `names` describe an
    element's two outcomes ("dropped", "kept"). Results in one group of `same` use the same bits. If
    `exact`, each element equals one of its outcomes to the last bit; otherwise it may be rounded.
    """

    seed: str
    names: tuple[str, str]
    same: tuple[tuple[int, ...], ...] = ()
    exact: bool = False


def randomness_of(source: TomlTable) -> Randomness | None:
    """[random], or None. Raises KeyProblem."""
    if (table := source.data.get("random")) is None:
        return None
    if not isinstance(table, dict):
        raise source.fail("random", 'needs a table: seed = "seed", names = ["dropped", "kept"]')
    source.require_known(table, ["seed", "names", "same", "exact"], "random.")
    inner = TomlTable(source.file, table)
    seed, names = table.get("seed"), inner.texts("names", ())
    if not isinstance(seed, str) or not seed.isidentifier():
        raise source.fail("random.seed", "needs the name of the spec's input that holds the seed")
    if len(names) != 2 or not all(name.strip() for name in names):
        raise source.fail("random.names", "needs two texts: the names of an element's outcomes")
    exact = table.get("exact", False)
    if not isinstance(exact, bool):
        raise source.fail("random.exact", f"needs true or false, not {exact!r}")
    for name in ("kernel", "predictions", "tested"):
        if name in source.data:
            raise source.fail("random", f"has no meaning with {name}")
    return Randomness(seed, (names[0], names[1]), _same(source, table.get("same", [])), exact)


def _same(source: TomlTable, groups: object) -> tuple[tuple[int, ...], ...]:
    problem = source.fail("random.same", "needs lists of at least two results, as in [[0, 1]]")
    if not isinstance(groups, list):
        raise problem
    for group in groups:
        valid = isinstance(group, list) and all(type(n) is int and n >= 0 for n in group)
        if not valid or len(set(group)) < 2:
            raise problem
    return tuple(map(tuple, groups))
