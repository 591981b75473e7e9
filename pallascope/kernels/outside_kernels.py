"""Operations around kernels, which of them are free (reshapes), and large constants of a trace.

The constants are arrays that were computed before the trace was made. For each result, the trace
also shows whether it depends on a kernel.

Some operations, such as reshapes, are free for XLA: the same bytes get another shape. A TPU stores
an array in tiles over its last two dimensions: 8 rows of 128 columns in 4-byte dtypes, 16 in
2-byte ones, 32 in 1-byte ones. If the columns and the tiles stay whole, rows can be regrouped in
place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jax.dtypes import float0
from jax.extend import core

from pallascope.kernels.calls import array_type, operation
from pallascope.kernels.evaluator import Env, Evaluator
from pallascope.kernels.jaxprs import (
    CALLS,
    Atom,
    Shaped,
    closed_jaxprs,
    equations,
    expanded,
    first_use,
    inner_jaxprs,
    repetitions,
)
from pallascope.kernels.pallas_params import KERNELS
from pallascope.kernels.source_lines import line_in
from pallascope.model import Constant, Operation

#: The limit for a constant in bytes, enough for a few numbers that arrange a launch.
MAX_CONSTANT_BYTES = 4 << 10

_LANES = 128
_ONE_DIMENSION = 1024  # elements in a tile of an array of rank 1


def is_bitcast(eqn: core.JaxprEqn) -> bool:
    """Whether an operation around a kernel moves no byte on a TPU, or one element at most."""
    if eqn.outvars and all(_has_no_bytes(var.aval) for var in eqn.outvars):
        return True
    arrays: list[Any] = [var.aval for var in (*eqn.invars[:1], *eqn.outvars)]
    if len(arrays) != 2 or not all(isinstance(array, Shaped) for array in arrays):
        return False
    given, made = (tuple(array.shape) for array in arrays)
    if not keeps_order(eqn, given) or math.prod(given) != math.prod(made):
        return False
    one_element = math.prod(made) == 1
    return (
        one_element
        or given == made
        or _same_tiles(given, made, 32 // max(arrays[0].dtype.itemsize, 1))
    )


def _has_no_bytes(array: Any) -> bool:
    """Whether an array is the gradient of integers."""
    return isinstance(array, Shaped) and array.dtype == float0


def keeps_order(eqn: core.JaxprEqn, given: tuple[int, ...]) -> bool:
    """Whether an operation leaves the elements in their row-major order."""
    params: dict[str, Any] = eqn.params
    match eqn.primitive.name:
        case "reshape":
            return params.get("dimensions") is None
        case "squeeze" | "expand_dims":
            return True
        case "broadcast_in_dim":  # jnp.expand_dims and x[None]; the size shows a larger result
            return len(eqn.invars) == 1
        case "transpose":
            moved = [axis for axis in params["permutation"] if given[axis] != 1]
            return moved == sorted(moved)
    return False


def _same_tiles(given: tuple[int, ...], made: tuple[int, ...], rows: int) -> bool:
    if len(given) > len(made):
        given, made = made, given
    if len(given) == 1:
        whole = given[0] % _ONE_DIMENSION == 0
        return whole and len(made) > 1 and made[-1] == _LANES and made[-2] % rows == 0
    if not given or given[-1] != made[-1]:
        return False
    return given[-2] == made[-2] or not (given[-2] % rows or made[-2] % rows)


def large_constants(closed: core.ClosedJaxpr, file: str) -> Iterator[Constant]:
    """The arrays larger than MAX_CONSTANT_BYTES whose contents are in a trace, also in kernels."""
    yield from _closed_over(closed, file)
    for eqn in equations(closed.jaxpr):
        for atom in eqn.invars:
            if isinstance(atom, core.Literal) and (size := _bytes(atom.val)) > MAX_CONSTANT_BYTES:
                yield Constant(array_type(atom.aval), size, line_in(eqn, file))
        for inner in closed_jaxprs(eqn):
            yield from _closed_over(inner, file)


def _closed_over(closed: core.ClosedJaxpr, file: str) -> Iterator[Constant]:
    """The large constants of one jaxpr, with the line of the equation that uses each first."""
    for var, constant in zip(closed.jaxpr.constvars, closed.consts, strict=False):
        if (size := _bytes(constant)) > MAX_CONSTANT_BYTES:
            first = first_use(closed.jaxpr, var)
            line = line_in(first, file) if first is not None else 0
            yield Constant(array_type(var.aval), size, line)


def _bytes(value: object) -> int:
    return int(getattr(value, "nbytes", 0) or 0)


_WRAPPERS = (*CALLS, "call_hi_primitive")


class OutsideReader(Evaluator):
    """Reads a trace outside of kernels; gathers kernels and other operations in program order.

    Leaves out operations that move no byte. A value is whether it depends on a kernel.

    `from_kernel` says for each result whether it depends on a kernel. `file` is the learner's,
    for the lines of the operations.
    """

    def __init__(self, closed: core.ClosedJaxpr, file: str = "") -> None:
        self.kernels: list[core.JaxprEqn] = []
        self.outside: list[Operation] = []
        self._file = file
        # jax traces its own functions once, with the lines of their first caller: the line of an
        # operation in them is that of the call. The surrounding scans run them this many times.
        self._line, self._times = 0, 1
        self.from_kernel = self.evaluate(closed.jaxpr, [False] * len(closed.jaxpr.invars))

    def constant(self, value: object) -> bool:
        return False

    def value(self, atom: Atom, env: Env) -> bool:
        return isinstance(atom, core.Var) and env.get(atom, False)

    def operation(self, eqn: core.JaxprEqn, inputs: list[bool], env: Env) -> list[bool]:
        count = len(eqn.outvars)
        if eqn.primitive.name in KERNELS:
            self.kernels.append(eqn)
            return [True] * count
        inner = inner_jaxprs(eqn) or expanded(eqn)
        caller, times = self._line, self._times
        self._line = (line_in(eqn, self._file) if self._file else 0) or caller
        if not (is_bitcast(eqn) or (eqn.primitive.name in _WRAPPERS and inner)):
            self.outside.append(operation(eqn, self._line, times))
        self._times *= repetitions(eqn)
        results = [False if inner else any(inputs)] * count
        for jaxpr in inner:
            # A cond's first operand chooses the branch; the rest line up with each branch's.
            aligned = inputs[len(inputs) - len(jaxpr.invars) :]
            if len(aligned) != len(jaxpr.invars):
                aligned = [any(inputs)] * len(jaxpr.invars)
            branch = self.evaluate(jaxpr, aligned)
            branch = branch if len(branch) == count else [any(branch)] * count
            results = [before or now for before, now in zip(results, branch, strict=True)]
        self._line, self._times = caller, times
        return results
