"""Every regular expression of the grader, and the texts that each takes longest to search."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import itertools
import operator
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from tests.test_architecture import FILES

#: Functions of `re` whose first argument is a pattern.
SEARCHES = {
    "compile",
    "match",
    "search",
    "sub",
    "subn",
    "findall",
    "fullmatch",
    "finditer",
    "split",
}
REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}
LOOKS = {_constants.ASSERT, _constants.ASSERT_NOT}


@dataclass(frozen=True, slots=True)
class Search:
    """A pattern, the method that is called, the module and the line."""

    pattern: str
    method: str
    where: str

    def of(self, text: str) -> None:
        """Carry the search out."""
        compiled = re.compile(self.pattern)
        match self.method:
            case "sub" | "subn":
                compiled.sub("", text)
            case "finditer":
                list(compiled.finditer(text))
            case method:
                getattr(compiled, method)(text)


def every_search() -> list[Search]:
    """Each pattern with each way in which it is used.

    Where a pattern is a variable, it comes from a table: then all rows of the module's tables
    count whose first text is a pattern.
    """
    found: dict[tuple[str, str], Search] = {}
    code = "\n".join(file.read_text(encoding="utf-8") for file in FILES.values())
    for module, file in FILES.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and _is_search(node)):
                continue
            names = _Names(vars(importlib.import_module(module)))
            pattern = _evaluated(node.args[0], names)
            several = names.tables() if isinstance(pattern, Unknown) else [pattern]
            for text, method in itertools.product(several, _methods(node, tree, code)):
                search = Search(
                    _flagged(text, _flags(node, names)), method, f"{module}:{node.lineno}"
                )
                found.setdefault((search.pattern, method), search)
    return list(found.values())


def _methods(call: ast.Call, tree: ast.Module, code: str) -> Iterator[str]:
    """The methods that search for a pattern: in this call, or in calls with its name."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "compile":
        yield call.func.attr
        return
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Assign) and node.value is call)
    for assigned in named:
        name = ast.unparse(assigned.targets[0])
        within = ast.unparse(tree) if name.startswith("_") else code
        methods = set(re.findall(rf"\b{re.escape(name)}\.(\w+)", within)) & SEARCHES
        yield from sorted(methods)
        return
    yield "search"  # in a table


def _flags(call: ast.Call, names: _Names) -> re.RegexFlag:
    given = [_evaluated(one, names) for one in [*call.args[1:], *(k.value for k in call.keywords)]]
    flags = (one for one in given if isinstance(one, re.RegexFlag))
    return functools.reduce(operator.or_, flags, re.RegexFlag(0))


class Unknown(str):
    """The value of a variable that only a running function has."""

    def __getattr__(self, _name: str) -> Unknown:
        return self

    def __getitem__(self, _key: object) -> Unknown:
        return self


class _Names(dict[str, Any]):
    """The names of a module; any other is Unknown."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Unknown("name"))

    def tables(self) -> Iterator[str]:
        """The patterns in the module's tables: the first text of each row."""
        for value in list(self.values()):
            if isinstance(value, tuple):
                yield from filter(_compiles, map(_first, value))


def _first(row: object) -> str:
    """The first literal text in a row; "" without one."""
    fields = getattr(type(row), "__dataclass_fields__", ())
    cells = row if isinstance(row, tuple) else [getattr(row, name) for name in fields]
    found = (cell.pattern if isinstance(cell, re.Pattern) else cell for cell in cells)
    return next((cell for cell in found if isinstance(cell, str)), "")


def _compiles(text: str) -> bool:
    try:
        return bool(re.compile(text) and text)
    except re.error:
        return False


def _is_search(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in SEARCHES
    )


def _evaluated(node: ast.expr, names: _Names) -> Any:
    code = compile(ast.Expression(node), "<pattern>", "eval")
    try:
        return eval(code, {"__builtins__": {}}, names)
    except (NameError, TypeError, AttributeError):
        return Unknown("name")


def _flagged(pattern: str, flags: re.RegexFlag) -> str:
    letters = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
    chosen = "".join(letter for flag, letter in letters.items() if flag in flags)
    return f"(?{chosen}){pattern}" if chosen else pattern


# ---- the texts that take longest ----


def worst_cases(pattern: str, length: int, count: int = 80) -> Iterator[str]:
    """Texts of about this length that repeat parts of the pattern.

    An engine that backtracks takes long where it can begin a match in many places, or share the
    same characters among several repetitions in many ways, and fails in the end.
    """
    parts = list(filter(None, _parts(_parser.parse(pattern))))
    pieces = list(dict.fromkeys(["".join(parts) or "a", *parts]))
    heads = list(dict.fromkeys(("", *itertools.accumulate(parts))))
    chance = random.Random(pattern)
    for number in range(count):
        # First each piece alone, then two or three of them after each other.
        run = pieces[number : number + 1] or chance.choices(pieces, k=chance.randint(2, 3))
        share = length // len(run)
        body = "".join(piece * max(1, share // len(piece)) for piece in run)
        yield chance.choice(heads) + body + chance.choice(("", "\0", "\n"))


def _parts(tree: Sequence[Any]) -> Iterator[str]:
    """An example of each part of a pattern, in order, with one repetition of repeated parts."""
    for operation, argument in tree:
        if operation in REPEATS:
            yield from _parts(argument[2])
        elif operation is _constants.SUBPATTERN:
            yield from _joined(argument[-1])
        elif operation is _constants.ATOMIC_GROUP:
            yield from _parts(argument)
        elif operation is _constants.BRANCH:
            for branch in argument[1]:
                yield from _joined(branch)
        elif operation in LOOKS:
            yield from _joined(argument[1])
        else:
            yield _character(operation, argument)


def _joined(tree: Sequence[Any]) -> Iterator[str]:
    """The parts, with letters that follow each other put together as one word."""
    words = itertools.groupby(tree, key=lambda one: one[0] is _constants.LITERAL)
    for literal, group in words:
        if literal:
            yield "".join(chr(argument) for _, argument in group)
        else:
            yield from _parts(list(group))


def _character(operation: Any, argument: Any) -> str:
    if operation is _constants.LITERAL:
        return chr(argument)
    if operation is _constants.NOT_LITERAL:
        return "b" if argument == ord("a") else "a"
    if operation is _constants.ANY:
        return "a"
    if operation is _constants.IN:
        choices = (chr(code) for code in (*b"a0 x.-[:(\"'<>", 10, *range(33, 127)))
        inside = re.compile(_class(argument))
        return next(filter(inside.match, choices), "")
    return ""  # an edge, or a reference to a group


def _class(items: Sequence[Any]) -> str:
    """A set of characters in Python's syntax."""
    names = {
        _constants.CATEGORY_DIGIT: r"\d",
        _constants.CATEGORY_NOT_DIGIT: r"\D",
        _constants.CATEGORY_SPACE: r"\s",
        _constants.CATEGORY_NOT_SPACE: r"\S",
        _constants.CATEGORY_WORD: r"\w",
        _constants.CATEGORY_NOT_WORD: r"\W",
    }
    text = ""
    for operation, argument in items:
        if operation is _constants.NEGATE:
            text += "^"
        elif operation is _constants.LITERAL:
            text += re.escape(chr(argument))
        elif operation is _constants.RANGE:
            text += f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        else:
            text += names[argument]
    return f"[{text}]"
