"""Arithmetic over names, as answer keys write it: "3*bm + 40"."""

from __future__ import annotations

import ast

_OPERATIONS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def _parse_arithmetic(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{text!r} is no arithmetic") from None
    for node in ast.walk(tree):
        binary = isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS
        part = isinstance(node, (ast.Name, ast.Constant, ast.operator, ast.expr_context))
        if not (binary or part):
            raise ValueError(f"{text!r}: only names, whole numbers, + - * // and parentheses")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ValueError(f"{text!r}: {node.value!r} is no whole number")
    return tree


def arithmetic_names(text: str) -> set[str]:
    """The names that an arithmetic text uses. Raises ValueError where it is no arithmetic."""
    return {n.id for n in ast.walk(_parse_arithmetic(text)) if isinstance(n, ast.Name)}


def evaluate(text: str, sizes: dict[str, int]) -> int:
    """The value of an arithmetic text over the sizes drawn so far."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Name):
            return sizes[node.id]
        assert isinstance(node, ast.Constant)
        assert isinstance(node.value, int)
        return node.value

    return value(_parse_arithmetic(text))
