"""How much may be done around a kernel: by cost, dtype and name.

Operations that XLA turns into a bitcast cost nothing and don't appear here. Of the rest, a key
allows some by name, or

- "tables": computations on integers and booleans alone, if their cost is that of their arrays:
  tables that say where a kernel works;
- "cheap": the same for any dtype. The cost of a matrix product is its number of multiplications.

`sum(x / (1 / w))` is a whole matrix product, made of operations that routing metadata needs too. So

- operations that compute (all but LAYOUT) are for integers and booleans, unless the key says
  `outside_floats = true`;
- nothing may handle more than LARGEST times as many elements as the largest input or result of the
  case has: a product has to go through an array of all its terms, or
- through very many smaller ones: all operations together may compute or move at most TOTAL times as
  many, a scalar counted as one element, and a loop's operations once for each iteration.

The bounds come from the case alone, so no key has to give numbers. All solutions stay below 0.4 and
9 (2 with the oldest jax); a product of two matrices takes twice the smallest of its dimensions, 128
or more.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.exercise.answer_key import LAYOUT
from pallascope.checks.phrasing import SPELLINGS, listed
from pallascope.model import ArrayType, Operation, Reference

LARGEST = 4
TOTAL = 12

IN_THE_KERNEL = "Move the computation into the kernel's body, and return the kernel's result."

_BETWEEN_CHIPS = (
    "Nothing has to be sent around this kernel: let in_specs give each chip its part, or let the "
    "kernel itself copy from chip to chip, if that is the exercise."
)
#: What to do instead of moving an array around a kernel; the first of these operations counts.
_INSTEAD: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("scan", "while"),
        "Let the grid be the loop. A loop around a kernel launches it once for each turn, and each "
        "launch fetches its blocks again. An axis of the grid avoids that: jax.vmap adds one to a "
        "pallas_call, or the index maps do.",
    ),
    (
        ("gather", "dynamic_slice", "take", "sort"),
        "Don't move blocks before the launch: let the index map say which block a step gets. It "
        "can compute the number, or look it up in a table that is prefetched.",
    ),
    (
        ("transpose", "rev"),
        "Don't turn the array around the kernel: let the index map exchange block numbers, and the "
        "kernel's body turn its block.",
    ),
    (
        ("broadcast_in_dim", "concatenate", "tile", "pad"),
        "Don't make copies before the launch: an index map may give many steps the same block, and "
        "a value that is loaded is broadcast in the kernel's body.",
    ),
    (
        ("reshape", "slice", "squeeze"),
        "Leave the array as it is and let BlockSpecs cut it: a block has as many dimensions as the "
        "array, and None hides one of them from the kernel.",
    ),
    (
        ("convert_element_type",),
        "Cast in the kernel's body, after the load and before the store: x_ref[...].astype(dtype).",
    ),
)

SHARD_MAP = "shard_map"
#: Operations that say how arrays lie on several devices: they move nothing by themselves.
SHARDING = (SHARD_MAP, "axis_index", "pvary", "pcast", "sharding_constraint")
#: Operations between devices, by their names in jax.lax; and other names in a trace.
COLLECTIVES = (
    *("psum", "pmax", "pmin", "ppermute", "pbroadcast", "all_gather", "all_to_all"),
    *("psum_scatter", "ragged_all_to_all"),
)


TABLES = "tables"
CHEAP = "cheap"

_EXACT = ("int", "uint", "bool")

#: Operations that cost what their arrays do, and those whose cost is counted: products and loops.
_LINEAR = (
    *("abs", "add", "and", "argmax", "argmin", "bitcast_convert_type", "broadcast_in_dim"),
    *("ceil", "clamp", "concatenate", "cond", "convert_element_type", "copy", "copy_p"),
    *("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "div", "dot_general"),
    *("dynamic_slice", "dynamic_update_slice", "eq", "erf", "exp", "exp2", "expand_dims"),
    *("expm1", "floor", "gather", "ge", "gt", "integer_pow", "iota", "is_finite", "le", "le_to"),
    *("log", "log1p", "logistic", "lt", "lt_to", "max", "min", "mul", "ne", "neg", "not"),
    *("optimization_barrier", "or", "pad", "pow", "reduce_and", "reduce_max", "reduce_min"),
    *("reduce_or", "reduce_prod", "reduce_sum", "rem", "reshape", "rev", "round", "rsqrt"),
    *("scan", "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul"),
    *("scatter_add", "scatter_max", "scatter_min", "scatter_mul", "select_n", "shift_left"),
    *("shift_right_arithmetic", "shift_right_logical", "sign", "slice", "sort", "split", "sqrt"),
    *("square", "squeeze", "stack", "stop_gradient", "sub", "tanh", "tile", "top_k", "transpose"),
    *("unstack", "xor"),
)


@dataclass(frozen=True, slots=True)
class TooMuch:
    """Work outside the kernel that isn't allowed: in short, in full, its line, and a remedy."""

    phrase: str
    reason: str
    line: int
    advice: str = IN_THE_KERNEL


_RULE = (
    "Around these kernels, rows may be moved, sorted and weighted. No operation may handle more "
    f"than {LARGEST} times as many elements as the largest input or result has, and all together "
    f"not more than {TOTAL} times as many. A matrix product handles one for each multiplication."
)
_WITHOUT = (
    "Gather rows by their index, weight and add them with a few passes over the array, and leave "
    "the products of matrices to the kernels."
)


def too_much(
    operations: Sequence[Operation], allowed: Sequence[str], floats: bool, reference: Reference
) -> TooMuch | None:
    """The operations around a kernel that are not allowed, if any.

    If `allowed` names shard_map, operations that belong to it don't count.
    """
    if SHARD_MAP in allowed:
        operations = [_as_called(o) for o in operations if o.name not in SHARDING]
    return (
        _by_name(operations, allowed)
        or (None if floats else _by_dtype(operations))
        or _by_size(operations, allowed, reference)
    )


def _as_called(operation: Operation) -> Operation:
    """An operation by the name that jax.lax has for it."""
    name = SPELLINGS.get(operation.name, operation.name)
    return dataclasses.replace(operation, name=name)


def _by_name(operations: Iterable[Operation], allowed: Sequence[str]) -> TooMuch | None:
    extra = [operation for operation in operations if not _allowed(operation, allowed)]
    if not extra:
        return None
    names = _counted(operation.name for operation in extra)
    phrase = f"work outside the kernel: {names}"
    if CHEAP in allowed:
        return TooMuch(
            phrase,
            f"The cost of this outside of a kernel is not known: {names}. {_RULE}",
            extra[0].line,
            _WITHOUT,
        )
    if TABLES in allowed:
        return TooMuch(
            phrase,
            f"Some of the work is done outside the kernel: {names}, on {_array(extra[0])}. Around "
            "this kernel, integers may be computed, for the tables that say where it works, and "
            "arrays reshaped where that moves nothing.",
            extra[0].line,
        )
    costs = "Each such operation moves the whole array through HBM once more."
    if any(operation.name in COLLECTIVES for operation in extra):
        costs = "An operation between chips sends whole arrays over the links."
    return TooMuch(
        phrase,
        f"Some of the work is done outside the kernel: {names}. {costs}\n"
        f"Allowed around this kernel: {listed(allowed, 12) or 'operations that move nothing'}.",
        extra[0].line,
        _instead(extra),
    )


def _instead(extra: Sequence[Operation]) -> str:
    """A remedy for these operations: for computations, the kernel's body; for those that only move
    an array, an index map."""
    names = {operation.name for operation in extra}
    if names & {*COLLECTIVES}:
        return _BETWEEN_CHIPS
    moving = {name for known, _ in _INSTEAD for name in known}
    if any(o.name not in moving and not _exact(o) for o in extra):
        return IN_THE_KERNEL
    return next((advice for known, advice in _INSTEAD if names & {*known}), IN_THE_KERNEL)


def _allowed(operation: Operation, allowed: Sequence[str]) -> bool:
    if operation.name in allowed:
        return True
    cheap = CHEAP in allowed or (TABLES in allowed and _exact(operation))
    return cheap and operation.name in _LINEAR


def _by_dtype(operations: Iterable[Operation]) -> TooMuch | None:
    """Computations on floating-point numbers, if only tables of integers are allowed."""
    extra = [o for o in operations if o.name not in (*LAYOUT, *COLLECTIVES) and not _exact(o)]
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


def _by_size(
    operations: Sequence[Operation], allowed: Sequence[str], reference: Reference
) -> TooMuch | None:
    arrays = (*reference.inputs, *reference.results)
    most = max((math.prod(array.shape) for array in arrays), default=1)
    largest = max(operations, key=_elements, default=None)
    if largest is None:
        return None
    rule, advice = (f" {_RULE}", _WITHOUT) if CHEAP in allowed else ("", IN_THE_KERNEL)
    if _elements(largest) > LARGEST * most:
        what = "multiplies" if largest.terms > 1 else "handles"
        return TooMuch(
            f"too much outside the kernel: {largest.name} makes or reads {_array(largest)}",
            f"Outside the kernel, {largest.name} {what} {_elements(largest):,} elements at "
            f"once. The largest array of the inputs and results has {most:,}.{rule}",
            largest.line,
            advice,
        )
    total = sum(operation.turns * _elements(operation) for operation in operations)
    if total > TOTAL * most:
        names = _counted(operation.name for operation in operations)
        return TooMuch(
            f"too much outside the kernel: {total // most} times the largest array",
            f"The operations outside the kernel handle {total:,} elements, {total // most} "
            f"times as many as the largest array of the inputs and results has: {names}.{rule}",
            largest.line,
            advice,
        )
    return None


def _exact(operation: Operation) -> bool:
    """Whether an operation has to do with integers and booleans only."""
    arrays = (*operation.operands, *operation.results)
    return all(array.dtype.startswith(_EXACT) for array in arrays)


def _elements(operation: Operation) -> int:
    """How many elements it handles at once; of a matrix product, how many products it adds up."""
    arrays = (*operation.operands, *operation.results)
    largest = max((math.prod(array.shape) for array in arrays), default=1)
    made = sum(math.prod(array.shape) for array in operation.results)
    return max(largest, made * operation.terms)


def _array(operation: Operation) -> ArrayType | str:
    arrays = (*operation.operands, *operation.results)
    return max(arrays, key=lambda array: math.prod(array.shape), default="nothing")


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return listed(f"{name} ({n}×)" if n > 1 else name for name, n in counts.items())
