"""Scalars, routes, and the DMA events of a kernel's body as data.

What the scalar core computes: numbers, as far as they are known without running a kernel.

Which ways a copy takes from one chip of a mesh to another.

What happens in a kernel's body, as far as it has to do with copies and products.

What equations of a kernel name: numbers, buffers, parts of them, and semaphores.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.extend import core

from pallascope.kernels.jaxprs import Atom, array_struct, memory_space
from pallascope.kernels.manual_dma import UNTOLD_SIZE, extent, ref_of

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


#: The numbers of a chip along the axes of the mesh.
Place = tuple[int, ...]
#: Of the axes that it goes along, each with its steps; those below zero lead to lower numbers.
Way = tuple[tuple[str, int], ...]


def receiver(
    device: Any, chip: Mapping[str, int], sizes: Mapping[str, int], number: Callable[[Any], Number]
) -> Place | None:
    """The chip that `device` names, the `device_id` of a copy that `chip` starts.

    That is a number for each axis, numbers by the names of axes, or one number for all; `number`
    says what each is. None where that is not known, or where there is no such chip.
    """
    if isinstance(device, Mapping):
        if not set(device) <= set(sizes):
            return None
        found = [number(device[name]) if name in device else chip[name] for name in sizes]
    elif isinstance(device, (tuple, list)):
        found = [number(one) for one in device]
    else:
        found = _of_all(number(device), tuple(sizes.values()))
    there = len(found) == len(sizes) and all(
        one is not None and 0 <= int(one) < size
        for one, size in zip(found, sizes.values(), strict=False)
    )
    return tuple(int(one or 0) for one in found) if there else None


def _of_all(number: Number, sizes: Sequence[int]) -> list[Number]:
    """The numbers along the axes of a chip that has this number among all."""
    if number is None or not 0 <= int(number) < math.prod(sizes):
        return []
    found: list[Number] = []
    left = int(number)
    for size in reversed(sizes):
        left, along = divmod(left, size)
        found.insert(0, along)
    return found


def ways(sender: Sequence[int], target: Sequence[int], sizes: Mapping[str, int]) -> tuple[Way, ...]:
    """The shortest ways along the axes, each of which is a ring: its last chip is beside the first.

    There are several where both ways round a ring are as short.
    """
    each = [
        [(name, number) for number in _steps((end - start) % size, size)]
        for (name, size), start, end in zip(sizes.items(), sender, target, strict=True)
    ]
    return tuple(
        tuple((name, number) for name, number in steps if number)
        for steps in itertools.product(*each)
    )


def _steps(up: int, size: int) -> tuple[int, ...]:
    """How far it is to a chip that is `up` further on in a ring; two are beside each other once."""
    if size > 2 and 2 * up == size:
        return up, -up
    return (up if 2 * up <= size else up - size,)


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """What a Ref refers to: an operand, by its position, or of an inner scope; and its name.

    `key` is the same on all chips.
    """

    operand: int | None
    name: str
    key: Hashable


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy: so many elements along each dimension of a buffer.

    `at` are the indices, as far as they are known, in words.
    """

    buffer: Buffer
    extent: tuple[int, ...]
    space: str
    size: int  # bytes
    at: str = ""

    @property
    def said(self) -> str:
        """What it is, by the name in the kernel."""
        return self.buffer.name + self.at


#: A buffer of semaphores, and which of them.
Semaphore = tuple[Buffer, tuple[Number, ...]]


@dataclass(frozen=True, slots=True)
class Started:
    """A copy is started; `remote`, to another chip, which `to` names where it is known.

    So do the `ways` there, () where it is not known. `own` is the sender's semaphore.
    """

    source: End
    target: End
    semaphore: Semaphore
    remote: bool
    ways: tuple[Way, ...] = ()
    to: Place | None = None
    own: Semaphore | None = None


@dataclass(frozen=True, slots=True)
class Waited:
    """So many bytes are waited for."""

    semaphore: Semaphore
    size: int


@dataclass(frozen=True, slots=True)
class Multiplied:
    """Matrices are multiplied, with so many operations."""

    operations: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """A semaphore is signalled, `remote`: that of another chip."""

    semaphore: Semaphore
    count: int
    remote: bool
    to: Place | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """So many signals are waited for."""

    semaphore: Semaphore
    count: int


Event = Started | Waited | Multiplied | Signalled | Awaited


class Untold(ValueError):
    """What a copy or a branch depends on is known only at run time; says so in words."""


def value(atom: Atom, known: Mapping[core.Var, Any]) -> Any:
    """A number, a Buffer, or None for all else."""
    if isinstance(atom, core.Var):
        return known.get(atom)
    value = atom.val
    if getattr(value, "shape", ()) != ():
        return None
    return value.item() if hasattr(value, "item") else value


def end_of(end: Any, known: Mapping[core.Var, Any]) -> End:
    """One end of a copy. Raises Untold."""
    ref = ref_of(end)
    buffer, sizes = value(ref, known), extent(end)
    if not isinstance(buffer, Buffer) or sizes is None:
        raise Untold(UNTOLD_SIZE)
    size = math.prod(sizes) * array_struct(ref).dtype.itemsize
    return End(buffer, sizes, memory_space(ref.aval), size, _at(end, known))


def _at(end: Any, known: Mapping[core.Var, Any]) -> str:
    """The indices of a part, in words: "[1, 0:8]". What is whole is left out at the end."""
    texts = []
    for transform in getattr(end, "transforms", ()):
        for index in getattr(transform, "indices", ()):
            if not hasattr(index, "stride"):
                texts.append(_in_words(number(index, known)))
                continue
            first = number(index.start, known)
            last = None if first is None else int(first) + index.size
            texts.append(f"{_in_words(first)}:{_in_words(last)}")
    sizes = list(getattr(array_struct(ref_of(end)), "shape", ()))
    while texts and len(texts) <= len(sizes) and texts[-1] == f"0:{sizes[len(texts) - 1]}":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else ""


def _in_words(number: Number) -> str:
    return "?" if number is None else str(int(number))


def semaphore(end: Any, known: Mapping[core.Var, Any]) -> Semaphore:
    """Which semaphore a copy is counted by."""
    return semaphore_at(ref_of(end), getattr(end, "transforms", ()), known)


def semaphore_at(ref: Any, transforms: Sequence[Any], known: Mapping[core.Var, Any]) -> Semaphore:
    """Which semaphore of a Ref to some these transforms choose."""
    buffer = value(ref, known)
    assert isinstance(buffer, Buffer), ref
    indices = (index for one in transforms for index in getattr(one, "indices", ()))
    return buffer, tuple(number(index, known) for index in indices)


def number(index: Any, known: Mapping[core.Var, Any]) -> Number:
    """A scalar of the kernel's; None where it is not known."""
    if isinstance(index, (core.Var, core.Literal)):
        return value(index, known)
    return int(index) if getattr(index, "shape", None) == () or isinstance(index, int) else None
