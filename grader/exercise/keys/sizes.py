"""[cases] and [production] of an answer key: what each dimension, block size and dtype may be."""

from __future__ import annotations

from typing import Any

from grader.exercise.arithmetic import arithmetic_names, settle
from grader.exercise.keys.key import DTYPES, Production
from grader.exercise.keys.rows import Together, cards, columns
from grader.exercise.keys.table import Table

Choices = dict[str, tuple[int | str, ...]]


def cases_of(source: Table) -> tuple[Choices, Together, tuple[str, ...]]:
    """What each name of [cases] may be, the names that share rows, and the dtypes.

    Raises KeyProblem.
    """
    table = source.data.get("cases")
    if not isinstance(table, dict):
        raise source.fail("cases", "needs a table of names and what each may be")
    dtypes = _dtypes(source, "cases", table.get("dtype", ["float32"]))
    lists, together = columns(source, "cases", {n: v for n, v in table.items() if n != "dtype"})
    names = list(lists)
    choices = {name: _choices(source, "cases", name, lists[name], names) for name in names}
    _no_cycle(source, "cases", choices)
    _all_sizes(source, "cases", choices, together)
    return choices, together, dtypes


def production_of(
    source: Table, cases: Choices, together: Together, dtypes: tuple[str, ...]
) -> Production | None:
    """The same for the case of production size, or None. What it doesn't name is as in [cases].

    Raises KeyProblem.
    """
    table = source.data.get("production")
    if table is None:
        return None
    if not isinstance(table, dict) or not table:
        raise source.fail("production", "needs a table of names of [cases] and what each may be")
    if "dtype" in table:
        dtypes = _dtypes(source, "production", table["dtype"])
    given = {name: value for name, value in table.items() if name != "dtype"}
    lists, rows = columns(source, "production", given)
    source.known(lists, list(cases), "production.")
    named = {
        name: _choices(source, "production", name, value, list(cases))
        for name, value in lists.items()
    }
    choices = {**cases, **named}
    rest = (tuple(name for name in names if name not in named) for names in together)
    rows = (*rows, *(names for names in rest if names))
    _no_cycle(source, "production", choices)
    _all_sizes(source, "production", choices, rows)
    return Production(choices, dtypes, rows)


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


def _dtypes(source: Table, where: str, dtypes: Any) -> tuple[str, ...]:
    if not isinstance(dtypes, list) or not dtypes or any(d not in DTYPES for d in dtypes):
        raise source.fail(f"{where}.dtype", f"needs a list from {', '.join(DTYPES)}")
    return tuple(dtypes)


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


def _all_sizes(source: Table, where: str, choices: Choices, together: Together) -> None:
    """Try each choice, or row of choices, once, beside the others' first."""
    first = {name: items[0] for name, items in choices.items()}
    for names in cards(choices, together):
        for row in zip(*(choices[name] for name in names), strict=True):
            beside = {**first, **dict(zip(names, row, strict=True))}
            try:
                settle(beside)
            except ValueError as error:
                raise source.fail(where, str(error)) from None
