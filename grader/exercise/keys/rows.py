"""Rows of several names in [cases]: a case takes a whole row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grader.exercise.keys.table import Table

Together = tuple[tuple[str, ...], ...]


def cards(choices: Iterable[str], together: Together) -> list[tuple[str, ...]]:
    """The names that are dealt as one, and each of the others alone."""
    joint = {name for names in together for name in names}
    return [*together, *((name,) for name in choices if name not in joint)]


def columns(source: Table, where: str, table: dict[str, Any]) -> tuple[dict[str, Any], Together]:
    """Rows of several names as one list for each name, and which names share rows."""
    lists: dict[str, Any] = {}
    together: list[tuple[str, ...]] = []
    for heading, value in table.items():
        names = tuple(name.strip() for name in heading.split(","))
        if len(names) > 1:
            together.append(names)
        for name, column in zip(names, _rows(source, where, heading, names, value), strict=True):
            if name in lists or name == "dtype" or not name.isidentifier():
                raise source.fail(f"{where}.{heading}", f"{name!r} is no name, or stands twice")
            lists[name] = column
    return lists, tuple(together)


def _rows(source: Table, where: str, heading: str, names: tuple[str, ...], value: Any) -> list[Any]:
    """The value of each name: as it is where the name stands alone."""
    if len(names) == 1:
        return [value]
    rows = isinstance(value, list) and value
    if not rows or not all(isinstance(row, list) and len(row) == len(names) for row in value):
        raise source.fail(
            f"{where}.{heading}", f"needs a list of rows, each with {len(names)} values"
        )
    return [list(column) for column in zip(*value, strict=True)]
