"""How much may be done around a kernel: by dtype and by size, not by name alone.

`sum(x / (1 / w))` is a whole matrix product, made of what routing metadata needs too. So of the
operations that a key allows by name

- those that compute (all but LAYOUT) are for integers and booleans, unless the key says
  `outside_floats = true`;
- no array may be larger than LARGEST times the largest input or result of the case: a product has
  to go through an array of all its terms, or
- through very many smaller ones: all arrays that are computed or moved, together, are at most
  TOTAL times as large, the scalars counted as one element each.

The bounds come from the case alone, so no key has to give numbers. All solutions stay below 0.4 and
2; a product of two matrices takes twice the smallest of its dimensions, 128 or more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.checks.prose import listed
from grader.exercise.keys import LAYOUT
from grader.model import ArrayType, Operation, Reference

LARGEST = 4
TOTAL = 32

_EXACT = ("int", "uint", "bool")


@dataclass(frozen=True, slots=True)
class TooMuch:
    """What is done outside of the kernel and may not be: in short, in full, and on which line."""

    phrase: str
    reason: str
    line: int


def too_much(
    operations: Sequence[Operation], allowed: Sequence[str], floats: bool, reference: Reference
) -> TooMuch | None:
    """What of the operations around a kernel is not allowed, if anything is."""
    return (
        _by_name(operations, allowed)
        or (None if floats else _by_dtype(operations))
        or _by_size(operations, reference)
    )


def _by_name(operations: Iterable[Operation], allowed: Sequence[str]) -> TooMuch | None:
    extra = [operation for operation in operations if operation.name not in allowed]
    if not extra:
        return None
    names = _counted(operation.name for operation in extra)
    return TooMuch(
        f"work outside the kernel: {names}",
        f"Some of the work is done outside the kernel: {names}. Each such operation moves "
        "the whole array through HBM once more.\n"
        f"Allowed around this kernel: {listed(allowed, 12) or 'nothing'}.",
        extra[0].line,
    )


def _by_dtype(operations: Iterable[Operation]) -> TooMuch | None:
    """What computes with floating numbers, where only tables of integers are to be made."""
    extra = [o for o in operations if o.name not in LAYOUT and not _exact(o)]
    if not extra:
        return None
    names = _counted(operation.name for operation in extra)
    largest = max(extra, key=_elements)
    return TooMuch(
        f"work outside the kernel: {names}",
        f"Some of the work is done outside the kernel: {names}, on {_array(largest)}. Around "
        "this kernel only integers may be computed, for the tables that say where it works.",
        largest.line,
    )


def _by_size(operations: Sequence[Operation], reference: Reference) -> TooMuch | None:
    arrays = (*reference.inputs, *reference.results)
    most = max((math.prod(array.shape) for array in arrays), default=1)
    largest = max(operations, key=_elements, default=None)
    if largest is None:
        return None
    if _elements(largest) > LARGEST * most:
        return TooMuch(
            f"too much outside the kernel: {largest.name} makes or reads {_array(largest)}",
            f"Outside the kernel, {largest.name} handles {_elements(largest):,} elements at "
            f"once. The largest array of the inputs and results has {most:,}.",
            largest.line,
        )
    total = sum(map(_elements, operations))
    if total > TOTAL * most:
        names = _counted(operation.name for operation in operations)
        return TooMuch(
            f"too much outside the kernel: {total // most} times the largest array",
            f"The operations outside the kernel handle {total:,} elements, {total // most} "
            f"times as many as the largest array of the inputs and results has: {names}.",
            largest.line,
        )
    return None


def _exact(operation: Operation) -> bool:
    """Whether an operation has to do with integers and booleans only."""
    arrays = (*operation.operands, *operation.results)
    return all(array.dtype.startswith(_EXACT) for array in arrays)


def _elements(operation: Operation) -> int:
    arrays = (*operation.operands, *operation.results)
    return max((math.prod(array.shape) for array in arrays), default=1)


def _array(operation: Operation) -> ArrayType | str:
    arrays = (*operation.operands, *operation.results)
    return max(arrays, key=lambda array: math.prod(array.shape), default="nothing")


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return listed(f"{name} ({n}×)" if n > 1 else name for name, n in counts.items())
