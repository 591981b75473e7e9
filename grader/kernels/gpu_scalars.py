"""Whole numbers that a kernel computes for itself: where each thread is, which slot, which turn."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.extend import core

Number = int | bool


def _quotient(a: int, b: int) -> int:
    """Towards zero, as XLA divides."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b)


_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _quotient,
    "rem": _remainder,
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "max": max,
    "min": min,
    "clamp": lambda low, a, high: max(low, min(a, high)),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "shift_left": operator.lshift,
    "shift_right_arithmetic": operator.rshift,
    "shift_right_logical": operator.rshift,
    "copy": lambda a: a,
    "copy_p": lambda a: a,
}


def number_of(value: object) -> Number | None:
    """A value of a trace as a number; None where it is none, or not whole."""
    if isinstance(value, (bool, int)):
        return value
    if getattr(value, "shape", None) != ():
        return None
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    item: Any = value
    if kind == "b":
        return bool(item)
    return int(item) if kind in "iu" and kind else None


def computed(eqn: core.JaxprEqn, operands: Sequence[Number | None]) -> Number | None:
    """The result of an equation without Refs; None where it is no whole number that is known."""
    aval: Any = eqn.outvars[0].aval
    kind = getattr(getattr(aval, "dtype", None), "kind", "")
    if getattr(aval, "shape", None) != () or kind not in ("i", "u", "b"):
        return None
    name = eqn.primitive.name
    if name == "select_n":
        return _selected(operands)
    if any(value is None for value in operands):
        return None
    if name == "not":
        (value,) = operands
        return (not value) if kind == "b" else None
    if name == "convert_element_type":
        (value,) = operands
        whole = int(value) if value is not None else 0
        return bool(whole) if kind == "b" else whole
    if (compute := _COMPUTED.get(name)) is None:
        return None
    try:
        result = compute(*operands)
    except (ArithmeticError, ValueError):
        return None
    return bool(result) if kind == "b" else int(result)


def _selected(operands: Sequence[Number | None]) -> Number | None:
    which, *cases = operands
    return None if which is None or not 0 <= which < len(cases) else cases[int(which)]
