"""Operations around the kernels of a trace, and constants in it.

The constants are arrays that were computed before the trace was made. For each result, the trace
also shows whether it depends on a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from jax.extend import core

from pallascope.kernels.aliases import is_bitcast
from pallascope.kernels.calls import array_type, operation
from pallascope.kernels.evaluator import Env, Evaluator
from pallascope.kernels.jaxprs import (
    CALLS,
    Atom,
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
