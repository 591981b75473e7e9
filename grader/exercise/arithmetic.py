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


@functools.cache  # a key's texts are looked at again for every choice of every name
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


@functools.cache
def arithmetic_names(text: str) -> frozenset[str]:
    """The names that an arithmetic text uses. Raises ValueError where it is no arithmetic."""
    tree = _parse_arithmetic(text)
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


@functools.cache
def terms(text: str) -> tuple[tuple[str, ...], ...]:
    """The names that are multiplied in each term that a text adds up: "3*bm*G + 8" has (G, bm) and
    (). What it subtracts is left out. Raises ValueError where it is no arithmetic."""

    def added(node: ast.expr) -> list[tuple[str, ...]]:
        match node:
            case ast.BinOp(op=ast.Add()):
                return added(node.left) + added(node.right)
            case ast.BinOp(op=ast.Sub()):
                return added(node.left)
            case ast.BinOp(op=ast.Mult()):
                pairs = itertools.product(added(node.left), added(node.right))
                return [tuple(sorted({*left, *right})) for left, right in pairs]
            case ast.Name():
                return [(node.id,)]
        return [()]

    return tuple(added(_parse_arithmetic(text)))


@functools.cache
def factors(text: str) -> frozenset[str]:
    """The names that a text is a multiple of, whatever they are: "(5 - n)*bm*G" of bm and of G.

    Raises ValueError where it is no arithmetic.
    """

    def common(node: ast.expr) -> frozenset[str]:
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return common(node.left) & common(node.right)
            case ast.BinOp(op=ast.Mult()):
                return common(node.left) | common(node.right)
            case ast.Name():
                return frozenset({node.id})
        return frozenset()

    return common(_parse_arithmetic(text))


def evaluate(text: str, sizes: dict[str, int]) -> int:
    """The value of an arithmetic text over sizes. Raises ValueError for a division by zero."""

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


def settle(drawn: dict[str, int | str]) -> dict[str, int]:
    """Turn arithmetic over each other into numbers; there must be no circle among them.

    Raises ValueError where one is no size.
    """
    sizes: dict[str, int] = {}
    while len(sizes) < len(drawn):
        for name, item in drawn.items():
            if isinstance(item, int):
                sizes[name] = item
            elif arithmetic_names(item) <= set(sizes):
                sizes[name] = _size(name, item, sizes)
    return {name: sizes[name] for name in drawn}


def _size(name: str, text: str, sizes: dict[str, int]) -> int:
    try:
        size = evaluate(text, sizes)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if size < 0:
        raise ValueError(f"{name}: {text!r} is {size}, and a size is not negative")
    return size
