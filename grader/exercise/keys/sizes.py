"""[cases] and [production] of an answer key: what each dimension, block size and dtype may be."""

from __future__ import annotations

from typing import Any

from grader.exercise.arithmetic import arithmetic_names, settle
from grader.exercise.keys.key import DTYPES, Production
from grader.exercise.keys.table import Table


def choices_of(source: Table) -> tuple[dict[str, tuple[int | str, ...]], tuple[str, ...]]:
    """What each name of [cases] may be, and the dtypes. Raises KeyProblem."""
    table = source.data.get("cases")
    if not isinstance(table, dict):
        raise source.fail("cases", "needs a table of names and what each may be")
    dtypes = _dtypes(source, "cases", table.get("dtype", ["float32"]))
    names = [name for name in table if name != "dtype"]
    choices = {name: _choices(source, "cases", name, table[name], names) for name in names}
    _no_cycle(source, "cases", choices)
    _all_sizes(source, "cases", choices)
    return choices, dtypes


def production_of(
    source: Table, cases: dict[str, tuple[int | str, ...]], dtypes: tuple[str, ...]
) -> Production | None:
    """The same for the case of production size, or None. What it doesn't name is as in [cases].

    Raises KeyProblem.
    """
    table = source.data.get("production")
    if table is None:
        return None
    if not isinstance(table, dict) or not table:
        raise source.fail("production", "needs a table of names of [cases] and what each may be")
    source.known(table, [*cases, "dtype"], "production.")
    if "dtype" in table:
        dtypes = _dtypes(source, "production", table["dtype"])
    named = {
        name: _choices(source, "production", name, value, list(cases))
        for name, value in table.items()
        if name != "dtype"
    }
    choices = {**cases, **named}
    _no_cycle(source, "production", choices)
    _all_sizes(source, "production", choices)
    return Production(choices, dtypes)


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


def _no_cycle(source: Table, where: str, choices: dict[str, tuple[int | str, ...]]) -> None:
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


def _all_sizes(source: Table, where: str, choices: dict[str, tuple[int | str, ...]]) -> None:
    """Try each choice once, beside the others' first."""
    first = {name: items[0] for name, items in choices.items()}
    for name, items in choices.items():
        for item in items:
            try:
                settle({**first, name: item})
            except ValueError as error:
                raise source.fail(where, str(error)) from None
