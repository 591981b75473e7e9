"""Arithmetic over names, as answer keys write it: "3*bm + 40"."""

from __future__ import annotations

import ast
import functools
import itertools

_OPERATIONS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


@functools.cache  # each text of a key is evaluated for every choice of every name
def _parse_arithmetic(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{text!r} isn't arithmetic") from None
    for node in ast.walk(tree):
        binary = isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS
        part = isinstance(node, (ast.Name, ast.Constant, ast.operator, ast.expr_context))
        if not (binary or part):
            raise ValueError(f"{text!r}: only names, whole numbers, + - * // and parentheses")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ValueError(f"{text!r}: {node.value!r} isn't a whole number")
    return tree


@functools.cache
def arithmetic_names(text: str) -> frozenset[str]:
    """The names in an arithmetic text. Raises ValueError if it isn't arithmetic."""
    tree = _parse_arithmetic(text)
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


@functools.cache
def terms(text: str) -> tuple[tuple[str, ...], ...]:
    """The names in each term of a sum: "3*bm*G + 8" has (G, bm) and (). Subtracted terms are left
    out. Raises ValueError if it isn't arithmetic."""

    def terms_of(node: ast.expr) -> list[tuple[str, ...]]:
        match node:
            case ast.BinOp(op=ast.Add()):
                return terms_of(node.left) + terms_of(node.right)
            case ast.BinOp(op=ast.Sub()):
                return terms_of(node.left)
            case ast.BinOp(op=ast.Mult()):
                pairs = itertools.product(terms_of(node.left), terms_of(node.right))
                return [tuple(sorted({*left, *right})) for left, right in pairs]
            case ast.Name():
                return [(node.id,)]
        return [()]

    return tuple(terms_of(_parse_arithmetic(text)))


@functools.cache
def factors(text: str) -> frozenset[str]:
    """The names that are factors of a text's value: "(5 - n)*bm*G" has bm and G.

    Raises ValueError if it isn't arithmetic.
    """

    def factors_of(node: ast.expr) -> frozenset[str]:
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return factors_of(node.left) & factors_of(node.right)
            case ast.BinOp(op=ast.Mult()):
                return factors_of(node.left) | factors_of(node.right)
            case ast.Name():
                return frozenset({node.id})
        return frozenset()

    return factors_of(_parse_arithmetic(text))


def evaluate(text: str, sizes: dict[str, int]) -> int:
    """The value of an arithmetic text for these sizes. Raises ValueError for a division by zero."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Name):
            return sizes[node.id]
        assert isinstance(node, ast.Constant)
        assert isinstance(node.value, int)
        return node.value

    try:
        return value(_parse_arithmetic(text))
    except ZeroDivisionError:
        raise ValueError(f"{text!r} divides by zero") from None


def resolve_sizes(choices: dict[str, int | str]) -> dict[str, int]:
    """Evaluate sizes that are arithmetic over other sizes, without cycles.

    Raises ValueError if a value isn't a size.
    """
    sizes: dict[str, int] = {}
    while len(sizes) < len(choices):
        for name, choice in choices.items():
            if isinstance(choice, int):
                sizes[name] = choice
            elif arithmetic_names(choice) <= set(sizes):
                sizes[name] = _size(name, choice, sizes)
    return {name: sizes[name] for name in choices}


def _size(name: str, text: str, sizes: dict[str, int]) -> int:
    try:
        size = evaluate(text, sizes)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if size < 0:
        raise ValueError(f"{name}: {text!r} is {size}, and a size can't be negative")
    return size
