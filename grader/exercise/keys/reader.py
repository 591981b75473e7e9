"""Reads answer keys: the TOML file beside each solution, validated whole.

Every complaint is a KeyProblem that names the file, the key and the reason.
"""

from __future__ import annotations

import ast
import math
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from grader.exercise.keys.key import (
    HINTS,
    LAYOUT,
    Key,
    Mistake,
    Roundings,
    Sizes,
    Slack,
)
from grader.exercise.keys.kinds import predictions_of, tested_of
from grader.exercise.keys.mesh import MESH, mesh_of
from grader.exercise.keys.problem import KeyProblem
from grader.exercise.keys.randomness import randomness_of
from grader.exercise.keys.sizes import alike_of, cases_of, production_of
from grader.exercise.keys.table import Table
from grader.exercise.keys.target import OF_GPUS, gpu_of
from grader.model import Check

#: Hidden cases a session, where a key does not say; and the bounds of what it may say.
DEFAULT_CASES = 4
FEWEST_CASES, MOST_CASES = 3, 5
#: TensorCores that a device of some chip has.
MOST_CORES = 2
#: What `after` may hold: words in all, and columns in each line.
AFTER_WORDS, AFTER_COLUMNS = range(40, 161), 100

_NAMES = (
    *("title", "concept", "write", "hints", "todo", "stub", "cases", "count"),
    *("kernel", "outside", "roundings", "operand_roundings", "timeout", "par", "slack", "mistakes"),
    *("outside_floats", "full_precision", "production", "alike", "after", "block_by_block"),
    *("predictions", "tested", "planted", "random", "results", "mesh", "cores"),
    *("target", *OF_GPUS),
)


def load(file: Path) -> Key:
    """Read and validate an answer key. Raises KeyProblem."""
    source = _table(file)
    source.known(source.data, list(_NAMES))
    predictions, tested = predictions_of(source), tested_of(source)
    if predictions and tested:
        raise source.fail("tested", "needs either [predictions] or a launch under test, not both")
    cases = Sizes({}, (), ("float32",)) if tested else cases_of(source)
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
        count=source.number("count", DEFAULT_CASES, FEWEST_CASES, MOST_CASES),
        production=production_of(source, cases),
        kernel=_kernel(source) and not (predictions or tested),
        outside=_outside(source),
        outside_floats=_true(source, "outside_floats", default=False),
        full_precision=_true(source, "full_precision", default=False),
        roundings=Roundings(
            source.number("roundings", 2, 1, 64), source.number("operand_roundings", 0, 0, 64)
        ),
        timeout=_timeout(source),
        par_required=_par_required(source),
        slack=_slack(source),
        mistakes=_mistakes(source),
        together=cases.together,
        alike=alike_of(source, cases.choices),
        block_by_block=_block_by_block(source),
        predictions=predictions,
        tested=tested,
        random=randomness_of(source),
        results=source.texts("results", ()),
        mesh=mesh_of(source, cases.choices),
        gpu=gpu_of(source),
        cores=source.number("cores", 1, 1, MOST_CORES),
        after=_after(source),
    )


def _table(file: Path) -> Table:
    try:
        return Table(file, tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise KeyProblem(file, "(file)", "there is no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KeyProblem(file, "(file)", f"not valid TOML: {error}") from None


def _outside(source: Table) -> tuple[str, ...]:
    """What may stand around the kernel; of a launch for several devices, what splits arrays."""
    given = source.texts("outside", LAYOUT)
    return (*given, "shard_map") if MESH in source.data else given


def _kernel(source: Table) -> bool:
    value = _true(source, "kernel", default=True)
    of_kernels = ("outside", "outside_floats", "full_precision", "par", "slack", "production")
    for name in () if value else (*of_kernels, "cores"):
        if name in source.data:
            raise source.fail(name, "means nothing where there is no kernel")
    return value


def _block_by_block(source: Table) -> bool:
    value = _true(source, "block_by_block", default=False)
    if value and _kernel(source):
        raise source.fail("block_by_block", "means nothing where there is a kernel")
    return value


def _true(source: Table, name: str, *, default: bool) -> bool:
    value = source.data.get(name, default)
    if not isinstance(value, bool):
        raise source.fail(name, f"needs true or false, not {value!r}")
    return value


def _timeout(source: Table) -> float | None:
    value = source.data.get("timeout")
    if value is not None and (type(value) not in (int, float) or not 0 < value < math.inf):
        raise source.fail("timeout", f"needs a number of seconds above 0, not {value!r}")
    return value


def _par_required(source: Table) -> bool:
    value = source.data.get("par", "for a star")
    if value not in ("required", "for a star"):
        raise source.fail("par", f'needs "required" or "for a star", not {value!r}')
    return value == "required"


def _slack(source: Table) -> Slack:
    table = source.data.get("slack", {})
    if not isinstance(table, dict):
        raise source.fail("slack", "needs a table: {bytes = 0.10, cycles = 0.15}")
    source.known(table, ["bytes", "cycles"], "slack.")
    for name, value in table.items():
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise source.fail(f"slack.{name}", f"needs a fraction of par, not {value!r}")
    return Slack(**table)


def _hints(source: Table) -> tuple[str, ...]:
    hints = source.texts("hints", ())
    if len(hints) != len(HINTS) or not all(hint.strip() for hint in hints):
        raise source.fail("hints", f"needs {len(HINTS)} texts: {', '.join(HINTS)}")
    return hints


def _after(source: Table) -> str:
    if "after" not in source.data:
        return ""
    text = source.text("after").strip("\n")
    words = len(text.split())
    if words not in AFTER_WORDS:
        fewest, most = AFTER_WORDS[0], AFTER_WORDS[-1]
        raise source.fail("after", f"has {words} words; say it in {fewest} to {most}")
    if wide := [line for line in text.splitlines() if len(line) > AFTER_COLUMNS]:
        raise source.fail("after", f"a line is longer than {AFTER_COLUMNS} columns: {wide[0]!r}")
    return text


def _fillings(source: Table) -> tuple[tuple[str, ...], bool]:
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
        raise source.fail("todo", "a message is one line that is not empty")
    return tuple(map(_raise, messages)), False


def _parse(source: Table, key: str, code: str) -> None:
    try:
        ast.parse(f"def _():\n    if True:\n{_indented(code)}")
    except SyntaxError as error:
        raise source.fail(key, f"is no Python: {error.msg}") from None


def _mistakes(source: Table) -> tuple[Mistake, ...]:
    tables = source.data.get("mistakes", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise source.fail("mistakes", "needs [[mistakes]] tables")
    return tuple(_mistake(source, f"mistakes[{i}]", t) for i, t in enumerate(tables))


def _mistake(source: Table, key: str, table: dict[str, Any]) -> Mistake:
    names = ["title", "old", "new", "caught", "says"]
    source.known(table, names, f"{key}.")
    for name in names:
        if not isinstance(table.get(name), str) or (name != "new" and not table[name]):
            raise source.fail(f"{key}.{name}", "needs a text")
    checks = [check.value for check in Check]
    if table["caught"] not in checks:
        raise source.fail(f"{key}.caught", f"needs one of {', '.join(checks)}")
    texts = {name: table[name] for name in names if name != "caught"}
    return Mistake(caught=Check(table["caught"]), **texts)


def _raise(message: str) -> str:
    """The stub of a region, wrapped like the formatter would where the message is long."""
    quoted = '"' + message.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if len(quoted) <= 60:
        return f"raise NotImplementedError({quoted})"
    return f"raise NotImplementedError(\n    {quoted}\n)"


def _dedented(code: str) -> str:
    return textwrap.dedent(code).strip("\n")


def _indented(code: str) -> str:
    return "\n".join(f"        {line}" for line in code.splitlines())
