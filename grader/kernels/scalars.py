"""What the scalar core computes: numbers, as far as they are known without running a kernel."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.extend import core

#: A number that is known, or None.
Number = bool | int | float | None


def computed(eqn: core.JaxprEqn, inputs: Sequence[Number]) -> Number:
    """The result of an operation on numbers; None where it is not known, or no number."""
    name, (result, *more) = eqn.primitive.name, eqn.outvars or [None]
    if result is None or more or getattr(result.aval, "shape", None) != ():
        return None
    if name == "select_n":
        chosen = inputs[0]
        return None if chosen is None else inputs[1 + int(chosen)]
    if name in ("and", "or"):
        return _early(name, inputs)
    if None in inputs:
        return None
    if name == "convert_element_type":
        return _converted(inputs[0], np.dtype(eqn.params["new_dtype"]))
    function = _FUNCTIONS.get(name)
    try:
        return function(*inputs) if function else None
    except (ArithmeticError, TypeError, ValueError):
        return None


def _early(name: str, inputs: Sequence[Number]) -> Number:
    """Of two conditions, one may decide alone."""
    decides = name == "or"
    if any(one is decides for one in inputs):
        return decides
    one, other = inputs
    if one is None or other is None:
        return None
    return one | other if decides else one & other  # pyright: ignore[reportOperatorIssue]


def _converted(value: Number, dtype: np.dtype) -> Number:
    assert value is not None
    if dtype == np.bool_:
        return bool(value)
    return int(value) if np.issubdtype(dtype, np.integer) else float(value)


def _quotient(one: Any, other: Any) -> int | float:
    """As on the hardware: integers are rounded towards 0."""
    if isinstance(one, float) or isinstance(other, float):
        return one / other
    size = abs(one) // abs(other)
    return size if (one < 0) == (other < 0) else -size


def _rest(one: Any, other: Any) -> int | float:
    """With the sign of the dividend."""
    if isinstance(one, float) or isinstance(other, float):
        return math.fmod(one, other)
    return one - other * int(_quotient(one, other))


def _not(value: Any) -> bool | int:
    return not value if isinstance(value, bool) else ~value


def _itself(value: Any, *_: Any) -> Any:
    return value


_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": _quotient,
        "rem": _rest,
        "neg": operator.neg,
        "abs": abs,
        "sign": lambda value: (value > 0) - (value < 0),
        "max": max,
        "min": min,
        "clamp": lambda low, value, high: min(max(low, value), high),
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "xor": operator.xor,
        "not": _not,
        "shift_left": operator.lshift,
        "shift_right_arithmetic": operator.rshift,
        "multiple_of": _itself,
        "copy": _itself,
        "stop_gradient": _itself,
        "broadcast_in_dim": _itself,
        "reshape": _itself,
        "squeeze": _itself,
    }
)
