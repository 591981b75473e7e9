"""[cases] and [production] of an answer key: what each dimension, block size and dtype may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grader.exercise.arithmetic import arithmetic_names, settle
from grader.exercise.keys.key import DTYPES, Choices, Sizes
from grader.exercise.keys.table import Table

#: What stands in [cases] beside the sizes, alone or in rows with some of them.
DTYPE = "dtype"


def cases_of(source: Table) -> Sizes:
    """What each name of [cases] may be. Raises KeyProblem."""
    table = source.data.get("cases")
    if not isinstance(table, dict):
        raise source.fail("cases", "needs a table of names and what each may be")
    return _sizes(source, "cases", table, Sizes({}, (), ("float32",)))


def production_of(source: Table, cases: Sizes) -> Sizes | None:
    """The same for the case of production size, or None. What it doesn't name is as in [cases].

    Raises KeyProblem.
    """
    table = source.data.get("production")
    if table is None:
        return None
    if not isinstance(table, dict) or not table:
        raise source.fail("production", "needs a table of names of [cases] and what each may be")
    sizes = _sizes(source, "production", table, cases)
    source.known(sizes.choices, list(cases.choices), "production.")
    return sizes


def _sizes(source: Table, where: str, table: dict[str, Any], others: Sizes) -> Sizes:
    """What a table gives, and of the others what it doesn't."""
    given, together = _columns(source, where, table)
    dtypes = given.pop(DTYPE, list(others.dtypes))
    if not isinstance(dtypes, list) or not dtypes or any(d not in DTYPES for d in dtypes):
        raise source.fail(f"{where}.{DTYPE}", f"needs a list from {', '.join(DTYPES)}")
    names = list({**others.choices, **given})
    own = {name: _choices(source, where, name, value, names) for name, value in given.items()}
    choices = {**others.choices, **own}
    apart = {*own, DTYPE}
    left = (tuple(name for name in row if name not in apart) for row in others.together)
    together = (*together, *(names for names in left if len(names) > 1))
    _no_cycle(source, where, choices)
    _all_sizes(source, where, choices, together)
    return Sizes(choices, together, tuple(dtypes))


def cards(choices: Iterable[str], together: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The names that are dealt as one, and each of the others alone."""
    joint = {name for names in together for name in names}
    return [*together, *((name,) for name in choices if name not in joint)]


def alike_of(source: Table, choices: Choices) -> dict[str, str]:
    """What a session need not tell apart, with the reason. Raises KeyProblem."""
    table = source.data.get("alike", {})
    if not isinstance(table, dict):
        raise source.fail("alike", 'needs a table: N = "why one value is enough"')
    for what, why in table.items():
        key = f"alike.{what}"
        if not isinstance(why, str) or not why.strip():
            raise source.fail(key, "needs a text: the reason")
        parts = what.split(",")
        if len(parts) > 2:
            raise source.fail(key, "names one size or number of blocks, or two that may be equal")
        for part in parts:
            _arithmetic(source, key, part.strip(), list(choices))
    return table


def _columns(
    source: Table, where: str, table: dict[str, Any]
) -> tuple[dict[str, Any], tuple[tuple[str, ...], ...]]:
    """Rows of several names as one list for each name, and which names share rows."""
    columns: dict[str, Any] = {}
    together: list[tuple[str, ...]] = []
    for heading, value in table.items():
        names = tuple(name.strip() for name in heading.split(","))
        if len(names) > 1:
            together.append(names)
        for name, column in zip(names, _rows(source, where, heading, names, value), strict=True):
            if name in columns or not name.isidentifier():
                raise source.fail(f"{where}.{heading}", f"{name!r} is no name, or stands twice")
            columns[name] = column
    return columns, tuple(together)


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


def _choices(
    source: Table, where: str, name: str, value: Any, names: list[str]
) -> tuple[int | str, ...]:
    key = f"{where}.{name}"
    if isinstance(value, dict):
        return _range(source, key, value)
    items = value if isinstance(value, list) else [value]
    if not items:
        raise source.fail(key, "needs at least one value")
    for item in items:
        if isinstance(item, str):
            _arithmetic(source, key, item, [n for n in names if n != name])
        elif type(item) is not int or item < 0:
            raise source.fail(key, f"needs whole numbers or arithmetic, not {item!r}")
    return tuple(items)


def _range(source: Table, key: str, value: dict[str, Any]) -> tuple[int, ...]:
    source.known(value, ["min", "max", "step"], f"{key}.")
    ends = value.get("min"), value.get("max"), value.get("step", 1)
    if not any(isinstance(end, bool) for end in ends):
        match ends:
            case int(low), int(high), int(step) if step >= 1 and 0 <= low <= high:
                return tuple(range(low, high + 1, step))
    raise source.fail(key, "a range is {min = …, max = …, step = …} with 0 <= min <= max")


def _arithmetic(source: Table, key: str, text: str, names: list[str]) -> None:
    try:
        used = arithmetic_names(text)
    except ValueError as error:
        raise source.fail(key, str(error)) from None
    for name in used - set(names):
        raise source.fail(key, f"{text!r} uses {name!r}, which is no other name of [cases]")


def _no_cycle(source: Table, where: str, choices: Choices) -> None:
    needs = {
        name: {n for item in items if isinstance(item, str) for n in arithmetic_names(item)}
        for name, items in choices.items()
    }
    while needs:
        free = [name for name, others in needs.items() if not others & set(needs)]
        if not free:
            raise source.fail(where, f"these depend on each other: {', '.join(needs)}")
        for name in free:
            del needs[name]


def _all_sizes(
    source: Table, where: str, choices: Choices, together: tuple[tuple[str, ...], ...]
) -> None:
    """Try each choice, or row of choices, once, beside the others' first."""
    first = {name: items[0] for name, items in choices.items()}
    sized = [tuple(name for name in names if name != DTYPE) for names in together]
    for names in cards(choices, sized):
        for row in zip(*(choices[name] for name in names), strict=True):
            beside = {**first, **dict(zip(names, row, strict=True))}
            try:
                settle(beside)
            except ValueError as error:
                raise source.fail(where, str(error)) from None
