"""Reads and validates answer keys, the TOML files: sizes and dtypes in [cases], authors' errors.

Every error is a KeyProblem that names the file, the key and the reason.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.exercise.answer_key import (
    DEFAULT_CASES,
    DTYPES,
    HINTS,
    LAYOUT,
    MAX_CASES,
    MIN_CASES,
    Choices,
    Key,
    Mistake,
    Sizes,
    Slack,
)
from grader.exercise.arithmetic import arithmetic_names, resolve_sizes
from grader.exercise.key_tables import (
    MESH,
    KeyProblem,
    TomlTable,
    mesh_of,
    predictions_of,
    randomness_of,
    tested_of,
)
from grader.exercise.targets import TARGETS, target_of
from pallascope.model import Check, Roundings

#: The name of the dtype in [cases], alone or in rows with sizes.
DTYPE = "dtype"


def cases_of(source: TomlTable) -> Sizes:
    """The choices of each name in [cases]. Raises KeyProblem."""
    table = source.data.get("cases")
    if not isinstance(table, dict):
        raise source.fail("cases", "needs a table of names and their choices")
    return _sizes(source, "cases", table, Sizes({}, (), ("float32",)))


def production_of(source: TomlTable, cases: Sizes) -> Sizes | None:
    """The choices of the case of production size, or None. Other names are as in [cases].

    Raises KeyProblem.
    """
    return _large_case(source, "production", "cases", cases)


def values_of(source: TomlTable, production: Sizes | None) -> Sizes | None:
    """[values]: smaller choices, for production size's values. Others are as in [production].

    Raises KeyProblem.
    """
    if production is None and "values" in source.data:
        raise source.fail("values", "has no meaning without [production]")
    return _large_case(source, "values", "production", production) if production else None


def _large_case(source: TomlTable, where: str, others: str, defaults: Sizes) -> Sizes | None:
    """The choices in a table for one case, or None; those that it lacks are as in `others`."""
    table = source.data.get(where)
    if table is None:
        return None
    if not isinstance(table, dict) or not table:
        raise source.fail(where, f"needs a table of names in [{others}] and their choices")
    sizes = _sizes(source, where, table, defaults)
    source.require_known(sizes.choices, list(defaults.choices), f"{where}.")
    return sizes


def _sizes(source: TomlTable, where: str, table: dict[str, Any], defaults: Sizes) -> Sizes:
    """The sizes of a table, with defaults for those that it lacks."""
    columns, together = _columns(source, where, table)
    dtypes = columns.pop(DTYPE, list(defaults.dtypes))
    if not isinstance(dtypes, list) or not dtypes or any(d not in DTYPES for d in dtypes):
        raise source.fail(f"{where}.{DTYPE}", f"needs a list from {', '.join(DTYPES)}")
    names = list({**defaults.choices, **columns})
    own = {name: _choices(source, where, name, value, names) for name, value in columns.items()}
    choices = {**defaults.choices, **own}
    own_names = {*own, DTYPE}
    remaining = (tuple(name for name in row if name not in own_names) for row in defaults.together)
    together = (*together, *(names for names in remaining if len(names) > 1))
    _require_no_cycle(source, where, choices)
    _require_sizes(source, where, choices, together)
    return Sizes(choices, together, tuple(dtypes))


def name_groups(
    choices: Iterable[str], together: Iterable[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """The groups of names in `together`, and each other name as its own group."""
    grouped = {name for names in together for name in names}
    return [*together, *((name,) for name in choices if name not in grouped)]


def alike_of(source: TomlTable, choices: Choices) -> dict[str, str]:
    """[alike]: sizes that may be the same in all cases, with the reason. Raises KeyProblem."""
    table = source.data.get("alike", {})
    if not isinstance(table, dict):
        raise source.fail("alike", 'needs a table: N = "why one value is enough"')
    for names, reason in table.items():
        key = f"alike.{names}"
        if not isinstance(reason, str) or not reason.strip():
            raise source.fail(key, "needs a text: the reason")
        parts = names.split(",")
        if len(parts) > 2:
            raise source.fail(key, "names one size or number of blocks, or two that may be equal")
        for part in parts:
            _arithmetic(source, key, part.strip(), list(choices))
    return table


SIDES = ("below", "equal", "above", "no turn", "one turn", "more turns")


def edges_of(source: TomlTable) -> dict[str, str]:
    """[edges]: sides of comparisons, branches and loops that a session may lack, with the reason.

    Raises KeyProblem.
    """
    table = source.data.get("edges", {})
    if not isinstance(table, dict):
        raise source.fail("edges", 'needs a table: "left > 0: equal" = "why it can\'t happen"')
    for place, reason in table.items():
        if not isinstance(reason, str) or not reason.strip():
            raise source.fail(f"edges.{place}", "needs a text: the reason")
        code, _, side = place.rpartition(": ")
        if not code or (side not in SIDES and not re.fullmatch(r"branch \d", side)):
            raise source.fail(f"edges.{place}", f"ends with a side: {', '.join(SIDES)}, branch 0")
    return table


def _columns(
    source: TomlTable, where: str, table: dict[str, Any]
) -> tuple[dict[str, Any], tuple[tuple[str, ...], ...]]:
    """Converts rows of several names to a list for each name; also returns the grouped names."""
    columns: dict[str, Any] = {}
    together: list[tuple[str, ...]] = []
    for heading, value in table.items():
        names = tuple(name.strip() for name in heading.split(","))
        if len(names) > 1:
            together.append(names)
        for name, column in zip(names, _rows(source, where, heading, names, value), strict=True):
            if name in columns or not name.isidentifier():
                raise source.fail(f"{where}.{heading}", f"{name!r} isn't a name, or occurs twice")
            columns[name] = column
    return columns, tuple(together)


def _rows(
    source: TomlTable, where: str, heading: str, names: tuple[str, ...], value: Any
) -> list[Any]:
    """The column of each name; the value itself for a single name."""
    if len(names) == 1:
        return [value]
    rows = isinstance(value, list) and value
    if not rows or not all(isinstance(row, list) and len(row) == len(names) for row in value):
        raise source.fail(
            f"{where}.{heading}", f"needs a list of rows, each with {len(names)} values"
        )
    return [list(column) for column in zip(*value, strict=True)]


def _choices(
    source: TomlTable, where: str, name: str, value: Any, names: list[str]
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


def _range(source: TomlTable, key: str, value: dict[str, Any]) -> tuple[int, ...]:
    source.require_known(value, ["min", "max", "step"], f"{key}.")
    ends = value.get("min"), value.get("max"), value.get("step", 1)
    if not any(isinstance(end, bool) for end in ends):
        match ends:
            case int(low), int(high), int(step) if step >= 1 and 0 <= low <= high:
                return tuple(range(low, high + 1, step))
    raise source.fail(key, "a range is {min = …, max = …, step = …} with 0 <= min <= max")


def _arithmetic(source: TomlTable, key: str, text: str, names: list[str]) -> None:
    try:
        used = arithmetic_names(text)
    except ValueError as error:
        raise source.fail(key, str(error)) from None
    for name in used - set(names):
        raise source.fail(key, f"{text!r} uses {name!r}, which isn't another name in [cases]")


def _require_no_cycle(source: TomlTable, where: str, choices: Choices) -> None:
    dependencies = {
        name: {n for item in items if isinstance(item, str) for n in arithmetic_names(item)}
        for name, items in choices.items()
    }
    while dependencies:
        free = [name for name, others in dependencies.items() if not others & set(dependencies)]
        if not free:
            raise source.fail(where, f"these depend on each other: {', '.join(dependencies)}")
        for name in free:
            del dependencies[name]


def _require_sizes(
    source: TomlTable, where: str, choices: Choices, together: tuple[tuple[str, ...], ...]
) -> None:
    """Try each choice, or row of choices, once, with the first choices of all other names."""
    first = {name: items[0] for name, items in choices.items()}
    groups = [tuple(name for name in names if name != DTYPE) for names in together]
    for names in name_groups(choices, groups):
        for row in zip(*(choices[name] for name in names), strict=True):
            trial = {**first, **dict(zip(names, row, strict=True))}
            try:
                resolve_sizes(trial)
            except ValueError as error:
                raise source.fail(where, str(error)) from None


#: The most TensorCores of a device of any chip.
MAX_CORES = 2
#: The largest limit for the operations of a kernel's body.
MAX_OPERATIONS = 10_000
#: The bounds of `after`: words in all, and columns of a line.
AFTER_WORDS, AFTER_COLUMNS = range(40, 161), 100

_NAMES = (
    *("title", "concept", "write", "hints", "todo", "stub", "cases", "count"),
    *("kernel", "outside", "roundings", "operand_roundings", "timeout", "par", "slack", "mistakes"),
    *(
        "outside_floats",
        "full_precision",
        "production",
        "values",
        "alike",
        "edges",
        "operations",
        "after",
        "block_by_block",
    ),
    *("predictions", "tested", "planted", "random", "results", "mesh", "cores"),
    *("target", *(field for kind in TARGETS.values() for field in kind.fields)),
)


def load(file: Path) -> Key:
    """Read and validate an answer key. Raises KeyProblem."""
    source = _table(file)
    source.require_known(source.data, list(_NAMES))
    predictions, tested = predictions_of(source), tested_of(source)
    if predictions and tested:
        raise source.fail("tested", "needs either [predictions] or a launch under test, not both")
    cases = Sizes({}, (), ("float32",)) if tested else cases_of(source)
    production = production_of(source, cases)
    fillings, debugging = _fillings(source)
    return Key(
        title=source.text("title"),
        concept=source.text("concept"),
        write=source.text("write"),
        hints=_hints(source),
        fillings=fillings,
        debugging=debugging,
        choices=cases.choices,
        dtypes=cases.dtypes,
        count=source.integer("count", DEFAULT_CASES, MIN_CASES, MAX_CASES),
        production=production,
        values=values_of(source, production),
        kernel=_kernel(source) and not (predictions or tested),
        outside=_outside(source),
        outside_floats=source.boolean("outside_floats", False),
        full_precision=source.boolean("full_precision", False),
        roundings=Roundings(
            source.integer("roundings", 2, 1, 64), source.integer("operand_roundings", 0, 0, 64)
        ),
        timeout=_timeout(source),
        par_required=_par_required(source),
        slack=_slack(source),
        mistakes=_mistakes(source),
        together=cases.together,
        alike=alike_of(source, cases.choices),
        edges=edges_of(source),
        block_by_block=_block_by_block(source),
        predictions=predictions,
        tested=tested,
        random=randomness_of(source),
        results=source.texts("results", ()),
        mesh=mesh_of(source, cases.choices),
        target=target_of(source),
        cores=source.integer("cores", 1, 1, MAX_CORES),
        operations=_operations(source),
        after=_after(source),
    )


def _table(file: Path) -> TomlTable:
    try:
        return TomlTable(file, tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise KeyProblem(file, "(file)", "this file doesn't exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KeyProblem(file, "(file)", f"not valid TOML: {error}") from None


def _outside(source: TomlTable) -> tuple[str, ...]:
    """The operations allowed around the kernel; for several devices also shard_map."""
    operations = source.texts("outside", LAYOUT)
    return (*operations, "shard_map") if MESH in source.data else operations


def _kernel(source: TomlTable) -> bool:
    value = source.boolean("kernel", True)
    kernel_keys = ("outside", "outside_floats", "full_precision", "par", "slack", "production")
    for name in () if value else (*kernel_keys, "cores", "operations"):
        if name in source.data:
            raise source.fail(name, "has no meaning without a kernel")
    return value


def _operations(source: TomlTable) -> int | None:
    if "operations" not in source.data:
        return None
    return source.integer("operations", 1, 1, MAX_OPERATIONS)


def _block_by_block(source: TomlTable) -> bool:
    value = source.boolean("block_by_block", False)
    if value and _kernel(source):
        raise source.fail("block_by_block", "has no meaning with a kernel")
    return value


def _timeout(source: TomlTable) -> float | None:
    value = source.data.get("timeout")
    if value is not None and (type(value) not in (int, float) or not 0 < value < math.inf):
        raise source.fail("timeout", f"needs a number of seconds above 0, not {value!r}")
    return value


def _par_required(source: TomlTable) -> bool:
    value = source.data.get("par", "for a star")
    if value not in ("required", "for a star"):
        raise source.fail("par", f'needs "required" or "for a star", not {value!r}')
    return value == "required"


def _slack(source: TomlTable) -> Slack:
    table = source.data.get("slack", {})
    if not isinstance(table, dict):
        raise source.fail("slack", "needs a table: {bytes = 0.10, cycles = 0.15}")
    source.require_known(table, ["bytes", "cycles"], "slack.")
    for name, value in table.items():
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise source.fail(f"slack.{name}", f"needs a fraction of par, not {value!r}")
    return Slack(**table)


def _hints(source: TomlTable) -> tuple[str, ...]:
    hints = source.texts("hints", ())
    if len(hints) != len(HINTS) or not all(hint.strip() for hint in hints):
        raise source.fail("hints", f"needs {len(HINTS)} texts: {', '.join(HINTS)}")
    return hints


def _after(source: TomlTable) -> str:
    if "after" not in source.data:
        return ""
    text = source.text("after").strip("\n")
    words = len(text.split())
    if words not in AFTER_WORDS:
        fewest, most = AFTER_WORDS[0], AFTER_WORDS[-1]
        raise source.fail("after", f"has {words} words; needs {fewest} to {most}")
    if wide := [line for line in text.splitlines() if len(line) > AFTER_COLUMNS]:
        raise source.fail("after", f"a line is longer than {AFTER_COLUMNS} columns: {wide[0]!r}")
    return text


def _fillings(source: TomlTable) -> tuple[tuple[str, ...], bool]:
    if ("todo" in source.data) == ("stub" in source.data):
        raise source.fail("todo", "needs either todo (messages) or stub (given code), not both")
    if "stub" in source.data:
        stubs = tuple(map(_dedented, source.texts("stub", ())))
        if not stubs:
            raise source.fail("stub", "needs the given code of each solution region")
        for stub in stubs:
            _parse(source, "stub", stub)
        return stubs, True
    messages = source.texts("todo", ())
    if not messages:
        raise source.fail("todo", "needs one message for each solution region")
    if any(not message.strip() or "\n" in message for message in messages):
        raise source.fail("todo", "each message needs one non-empty line")
    return tuple(map(_raise_statement, messages)), False


def _parse(source: TomlTable, key: str, code: str) -> None:
    try:
        ast.parse(f"def _():\n    if True:\n{_indented(code)}")
    except SyntaxError as error:
        raise source.fail(key, f"isn't valid Python: {error.msg}") from None


def _mistakes(source: TomlTable) -> tuple[Mistake, ...]:
    tables = source.data.get("mistakes", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise source.fail("mistakes", "needs [[mistakes]] tables")
    return tuple(_mistake(source, f"mistakes[{i}]", t) for i, t in enumerate(tables))


def _mistake(source: TomlTable, key: str, table: dict[str, Any]) -> Mistake:
    names = ["title", "old", "new", "caught", "says"]
    source.require_known(table, names, f"{key}.")
    for name in names:
        if not isinstance(table.get(name), str) or (name != "new" and not table[name]):
            raise source.fail(f"{key}.{name}", "needs a text")
    checks = [check.value for check in Check]
    if table["caught"] not in checks:
        raise source.fail(f"{key}.caught", f"needs one of {', '.join(checks)}")
    texts = {name: table[name] for name in names if name != "caught"}
    return Mistake(caught=Check(table["caught"]), **texts)


def _raise_statement(message: str) -> str:
    """The stub of a region, in the formatter's style if the message is long."""
    quoted = '"' + message.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if len(quoted) <= 60:
        return f"raise NotImplementedError({quoted})"
    return f"raise NotImplementedError(\n    {quoted}\n)"


def _dedented(code: str) -> str:
    return textwrap.dedent(code).strip("\n")


def _indented(code: str) -> str:
    return "\n".join(f"        {line}" for line in code.splitlines())
