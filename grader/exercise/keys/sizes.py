"""The table [cases] of an answer key: what each dimension, block size and dtype may be."""

from __future__ import annotations

from typing import Any

from grader.exercise.arithmetic import arithmetic_names, settle
from grader.exercise.keys.key import DTYPES
from grader.exercise.keys.table import Table


def choices_of(source: Table) -> tuple[dict[str, tuple[int | str, ...]], tuple[str, ...]]:
    """What each name of [cases] may be, and the dtypes. Raises KeyProblem."""
    table = source.data.get("cases")
    if not isinstance(table, dict):
        raise source.fail("cases", "needs a table of names and what each may be")
    dtypes = table.get("dtype", ["float32"])
    if not isinstance(dtypes, list) or not dtypes or any(d not in DTYPES for d in dtypes):
        raise source.fail("cases.dtype", f"needs a list from {', '.join(DTYPES)}")
    names = [name for name in table if name != "dtype"]
    choices = {name: _choices(source, name, table[name], names) for name in names}
    _no_cycle(source, choices)
    _all_sizes(source, choices)
    return choices, tuple(dtypes)


def _choices(source: Table, name: str, value: Any, names: list[str]) -> tuple[int | str, ...]:
    key = f"cases.{name}"
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


def _no_cycle(source: Table, choices: dict[str, tuple[int | str, ...]]) -> None:
    needs = {
        name: {n for item in items if isinstance(item, str) for n in arithmetic_names(item)}
        for name, items in choices.items()
    }
    while needs:
        free = [name for name, others in needs.items() if not others & set(needs)]
        if not free:
            raise source.fail("cases", f"these depend on each other: {', '.join(needs)}")
        for name in free:
            del needs[name]


def _all_sizes(source: Table, choices: dict[str, tuple[int | str, ...]]) -> None:
    """Try each choice once, beside the others' first."""
    first = {name: items[0] for name, items in choices.items()}
    for name, items in choices.items():
        for item in items:
            try:
                settle({**first, name: item})
            except ValueError as error:
                raise source.fail("cases", str(error)) from None
