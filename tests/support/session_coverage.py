"""Sizes that the hidden cases of a session can't distinguish: sizes and numbers of blocks that
never vary, and sizes that are always equal. A kernel that confuses them would pass."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.exercise.answer_key import Key
from grader.exercise.arithmetic import arithmetic_names, terms
from grader.exercise.catalog import Kata
from grader.verdict import Case

#: With two steps along an axis, a sum that forgets all but the last two steps is right.
ENOUGH_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class Alike:
    """A feature that the cases of a session share, as [alike] names it, and in words."""

    what: str
    words: str


def found_alike(key: Key, extents: Sequence[str], cases: Sequence[Case]) -> Iterator[Alike]:
    """The sizes that no case of this session distinguishes, whether or not [alike] allows it.

    `extents` are numbers of blocks, as in "K//bk"; division rounds up.
    """
    drawn = {what: _values(what, cases) for what in (*key.choices, *extents)}
    for what, values in drawn.items():
        if len(set(values)) == 1:
            yield Alike(what, f"{what} is {values[0]} in all cases")
        elif what in extents and max(values) < ENOUGH_BLOCKS:
            yield Alike(what, f"{what} is at most {max(values)} in all cases")
    for one, other in itertools.combinations(drawn, 2):
        if drawn[one] == drawn[other] and not _by_definition(key, one, other):
            yield Alike(f"{one}, {other}", f"{one} and {other} are equal in all cases")


def extents_of(exercise: Kata) -> tuple[str, ...]:
    """A kata's numbers of blocks: a size divided by a factor in the key's arithmetic, or by a name
    by which its code divides it."""
    names = set(exercise.key.choices)
    drawn = {f"{size}//{'//'.join(by)}" for size in names for by in _factors(exercise.key, size)}
    code = exercise.solution.read_text(encoding="utf-8")
    divided = {text for text in _divisions(ast.parse(code)) if arithmetic_names(text) <= names}
    return tuple(sorted(drawn | divided))


def _values(what: str, cases: Sequence[Case]) -> list[int]:
    size, *divisors = what.split("//")
    values = [case.sizes[size] for case in cases]
    for name in divisors:
        values = [-(-value // case.sizes[name]) for value, case in zip(values, cases, strict=True)]
    return values


def _by_definition(key: Key, one: str, other: str) -> bool:
    """Whether M//tm is T because M is drawn as T*tm."""
    for ratio, name in ((one, other), (other, one)):
        size, *divisors = ratio.split("//")
        if divisors and any(set(by) == {*divisors, name} for by in _factors(key, size)):
            return True
    return False


def _factors(key: Key, size: str) -> set[tuple[str, ...]]:
    """The names by which a size is divisible in the key's arithmetic: M = "2*G*tm" by G, by tm, by
    both."""
    found: set[tuple[str, ...]] = set()
    for text in key.choices[size]:
        if isinstance(text, str):
            for names in terms(text):
                parts = range(1, len(names) + 1)
                found.update(p for n in parts for p in itertools.combinations(names, n))
    return found


def _divisions(tree: ast.Module) -> Iterator[str]:
    """M//bm and M//G//tm, wherever code divides one name by another, or calls cdiv with both."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and len(names := _divided(node)) > 1:
            yield "//".join(names)


def _divided(node: ast.expr) -> list[str]:
    """The names of a chain of divisions; none if it contains anything else."""
    match node:
        case ast.Name():
            return [node.id]
        case ast.BinOp(op=ast.FloorDiv(), left=left, right=ast.Name(id=by)):
            return [*names, by] if (names := _divided(left)) else []
        case ast.Call(func=ast.Attribute(attr="cdiv"), args=[left, ast.Name(id=by)]):
            return [*names, by] if (names := _divided(left)) else []
    return []
