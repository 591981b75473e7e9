"""Answer keys: the TOML file beside each solution, validated on load.

Every complaint is a KeyProblem that names the file, the key and the reason.
"""

from __future__ import annotations

import ast
import difflib
import math
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.arithmetic import arithmetic_names, settle
from grader.model import Check

DEFAULT_CASES = 4
DTYPES = ("float32", "bfloat16", "float16", "int32", "int8", "uint8", "int16", "uint32", "bool")

#: What may stand around a kernel unless its key says otherwise: operations that only say how the
#: elements are laid out.
LAYOUT = (
    "reshape",
    "transpose",
    "broadcast_in_dim",
    "squeeze",
    "expand_dims",
    "slice",
    "concatenate",
    "pad",
    "copy",
)

_NAMES = (
    *("title", "concept", "hints", "todo", "stub", "cases", "count"),
    *("kernel", "outside", "roundings", "operand_roundings", "timeout", "par", "slack", "mistakes"),
)


class KeyProblem(ValueError):
    """An answer key that can't be used: which file, which key, why."""

    def __init__(self, file: Path, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}")


@dataclass(frozen=True, slots=True)
class Slack:
    """How far above par a kernel may lie, as fractions of par."""

    bytes: float = 0.10
    cycles: float = 0.15


@dataclass(frozen=True, slots=True)
class Roundings:
    """How often a kernel may round: each result to its own dtype, and the operands of its sums to
    the coarsest floating dtype among the inputs."""

    results: int = 2
    operands: int = 0


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known wrong solution: replace `old` by `new`; `caught` must reject it, saying `says`."""

    title: str
    old: str
    new: str
    caught: Check
    says: str


@dataclass(frozen=True, slots=True)
class Key:
    """One kata's answer key.

    `choices` maps each name of [cases] to what it may be: numbers, or arithmetic over other names.
    `fillings` are the stubs' region bodies, as code. Without a `kernel` the launch is plain
    jax.numpy, traced by jit. `timeout` is in seconds, None for pytest's.
    `par_required`: missing par fails the kata, instead of costing a star.
    """

    title: str
    concept: str
    hints: tuple[str, str, str]
    fillings: tuple[str, ...]
    debugging: bool  # the regions ship with wrong code to mend instead of a raise
    choices: dict[str, tuple[int | str, ...]]
    dtypes: tuple[str, ...]
    count: int
    kernel: bool
    outside: tuple[str, ...]
    roundings: Roundings
    timeout: float | None
    par_required: bool
    slack: Slack
    mistakes: tuple[Mistake, ...]


def load(file: Path) -> Key:
    """Read and validate an answer key. Raises KeyProblem."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KeyProblem(file, "(file)", "there is no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KeyProblem(file, "(file)", f"not valid TOML: {error}") from None
    return _Reader(file, data).key()


@dataclass(frozen=True, slots=True)
class _Reader:
    file: Path
    data: dict[str, Any]

    def key(self) -> Key:
        self._known(self.data, list(_NAMES))
        choices, dtypes = self._cases()
        fillings, debugging = self._fillings()
        return Key(
            title=self._text("title"),
            concept=self._text("concept"),
            hints=self._hints(),
            fillings=fillings,
            debugging=debugging,
            choices=choices,
            dtypes=dtypes,
            count=self._number("count", DEFAULT_CASES, 3, 5),
            kernel=self._kernel(),
            outside=self._texts("outside", LAYOUT),
            roundings=Roundings(
                self._number("roundings", 2, 1, 64), self._number("operand_roundings", 0, 0, 64)
            ),
            timeout=self._timeout(),
            par_required=self._par_required(),
            slack=self._slack(),
            mistakes=self._mistakes(),
        )

    def _fail(self, key: str, reason: str) -> KeyProblem:
        return KeyProblem(self.file, key, reason)

    def _known(self, table: dict[str, Any], names: list[str], prefix: str = "") -> None:
        for name in table:
            if name not in names:
                close = difflib.get_close_matches(name, names, 1)
                advice = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
                raise self._fail(prefix + name, f"unknown key; {advice}")

    def _text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self._fail(name, "needs a text that is not empty")
        return value

    def _texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.data.get(name, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._fail(name, "needs a list of texts")
        return tuple(value)

    def _number(self, name: str, default: int, low: int, high: int) -> int:
        value = self.data.get(name, default)
        if type(value) is not int or not low <= value <= high:
            raise self._fail(name, f"needs a whole number from {low} to {high}, not {value!r}")
        return value

    def _kernel(self) -> bool:
        value = self.data.get("kernel", True)
        if not isinstance(value, bool):
            raise self._fail("kernel", f"needs true or false, not {value!r}")
        for name in () if value else ("outside", "par", "slack"):
            if name in self.data:
                raise self._fail(name, "means nothing where there is no kernel")
        return value

    def _timeout(self) -> float | None:
        value = self.data.get("timeout")
        if value is not None and (type(value) not in (int, float) or not 0 < value < math.inf):
            raise self._fail("timeout", f"needs a number of seconds above 0, not {value!r}")
        return value

    def _par_required(self) -> bool:
        value = self.data.get("par", "for a star")
        if value not in ("required", "for a star"):
            raise self._fail("par", f'needs "required" or "for a star", not {value!r}')
        return value == "required"

    def _slack(self) -> Slack:
        table = self.data.get("slack", {})
        if not isinstance(table, dict):
            raise self._fail("slack", "needs a table: {bytes = 0.10, cycles = 0.15}")
        self._known(table, ["bytes", "cycles"], "slack.")
        for name, value in table.items():
            if type(value) not in (int, float) or not 0 <= value < math.inf:
                raise self._fail(f"slack.{name}", f"needs a fraction of par, not {value!r}")
        return Slack(**table)

    def _hints(self) -> tuple[str, str, str]:
        hints = self._texts("hints", ())
        if len(hints) != 3 or not all(hint.strip() for hint in hints):
            raise self._fail("hints", "needs three texts: a nudge, the pattern, nearly all of it")
        return hints[0], hints[1], hints[2]

    def _fillings(self) -> tuple[tuple[str, ...], bool]:
        if ("todo" in self.data) == ("stub" in self.data):
            raise self._fail("todo", "needs either todo (messages) or stub (given code), not both")
        if "stub" in self.data:
            stubs = tuple(map(_dedented, self._texts("stub", ())))
            if not stubs:
                raise self._fail("stub", "needs the given code of each solution region")
            for stub in stubs:
                self._parse("stub", stub)
            return stubs, True
        messages = self._texts("todo", ())
        if not messages:
            raise self._fail("todo", "needs one message for each solution region")
        if any(not message.strip() or "\n" in message for message in messages):
            raise self._fail("todo", "a message is one line that is not empty")
        return tuple(map(_raise, messages)), False

    def _parse(self, key: str, code: str) -> None:
        try:
            ast.parse(f"def _():\n    if True:\n{_indented(code)}")
        except SyntaxError as error:
            raise self._fail(key, f"is no Python: {error.msg}") from None

    def _cases(self) -> tuple[dict[str, tuple[int | str, ...]], tuple[str, ...]]:
        table = self.data.get("cases")
        if not isinstance(table, dict):
            raise self._fail("cases", "needs a table of names and what each may be")
        dtypes = table.get("dtype", ["float32"])
        if not isinstance(dtypes, list) or not dtypes or any(d not in DTYPES for d in dtypes):
            raise self._fail("cases.dtype", f"needs a list from {', '.join(DTYPES)}")
        names = [name for name in table if name != "dtype"]
        choices = {name: self._choices(name, table[name], names) for name in names}
        self._no_cycle(choices)
        self._all_sizes(choices)
        return choices, tuple(dtypes)

    def _choices(self, name: str, value: Any, names: list[str]) -> tuple[int | str, ...]:
        key = f"cases.{name}"
        if isinstance(value, dict):
            return self._range(key, value)
        items = value if isinstance(value, list) else [value]
        if not items:
            raise self._fail(key, "needs at least one value")
        for item in items:
            if isinstance(item, str):
                self._arithmetic(key, item, [n for n in names if n != name])
            elif type(item) is not int or item < 0:
                raise self._fail(key, f"needs whole numbers or arithmetic, not {item!r}")
        return tuple(items)

    def _range(self, key: str, value: dict[str, Any]) -> tuple[int, ...]:
        self._known(value, ["min", "max", "step"], f"{key}.")
        ends = value.get("min"), value.get("max"), value.get("step", 1)
        if not any(isinstance(end, bool) for end in ends):
            match ends:
                case int(low), int(high), int(step) if step >= 1 and 0 <= low <= high:
                    return tuple(range(low, high + 1, step))
        raise self._fail(key, "a range is {min = …, max = …, step = …} with 0 <= min <= max")

    def _arithmetic(self, key: str, text: str, names: list[str]) -> None:
        try:
            used = arithmetic_names(text)
        except ValueError as error:
            raise self._fail(key, str(error)) from None
        for name in used - set(names):
            raise self._fail(key, f"{text!r} uses {name!r}, which is no other name of [cases]")

    def _no_cycle(self, choices: dict[str, tuple[int | str, ...]]) -> None:
        needs = {
            name: {n for item in items if isinstance(item, str) for n in arithmetic_names(item)}
            for name, items in choices.items()
        }
        while needs:
            free = [name for name, others in needs.items() if not others & set(needs)]
            if not free:
                raise self._fail("cases", f"these depend on each other: {', '.join(needs)}")
            for name in free:
                del needs[name]

    def _all_sizes(self, choices: dict[str, tuple[int | str, ...]]) -> None:
        """Try each choice once, beside the others' first."""
        first = {name: items[0] for name, items in choices.items()}
        for name, items in choices.items():
            for item in items:
                try:
                    settle({**first, name: item})
                except ValueError as error:
                    raise self._fail("cases", str(error)) from None

    def _mistakes(self) -> tuple[Mistake, ...]:
        tables = self.data.get("mistakes", [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise self._fail("mistakes", "needs [[mistakes]] tables")
        return tuple(self._mistake(f"mistakes[{i}]", t) for i, t in enumerate(tables))

    def _mistake(self, key: str, table: dict[str, Any]) -> Mistake:
        names = ["title", "old", "new", "caught", "says"]
        self._known(table, names, f"{key}.")
        for name in names:
            if not isinstance(table.get(name), str) or (name != "new" and not table[name]):
                raise self._fail(f"{key}.{name}", "needs a text")
        checks = [check.value for check in Check]
        if table["caught"] not in checks:
            raise self._fail(f"{key}.caught", f"needs one of {', '.join(checks)}")
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
