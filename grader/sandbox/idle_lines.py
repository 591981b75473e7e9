"""Lines of a learner's file that look as if they did something, and do nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.model import Note, Source

_BARE_WHEN = (
    "pl.when decorates a function; this line alone guards nothing. Write @pl.when(condition) over "
    "def _(): and indent what depends on it"
)
_WITHOUT_CONDITION = "@pl.when needs its condition, @pl.when(condition): this function never runs"


def notes_on(source: Source) -> tuple[Note, ...]:
    """A note for each such line; none where the file cannot be parsed."""
    try:
        tree = ast.parse(source.content)
        return tuple(sorted(_idle(tree), key=lambda note: note.line))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _idle(tree: ast.AST) -> Iterator[Note]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _is_when(node.value.func):
                yield Note(_BARE_WHEN, node.lineno)
        elif isinstance(node, ast.FunctionDef):
            for decorator in filter(_is_when, node.decorator_list):
                yield Note(_WITHOUT_CONDITION, decorator.lineno)


def _is_when(node: ast.AST) -> bool:
    """Whether this is pl.when itself, not a call of it."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "when"
        and isinstance(node.value, ast.Name)
        and node.value.id in ("pl", "pallas")
    )
