"""Which kernels do again what an earlier one has done, with the same arrays: XLA runs one of them.

Every value gets a number; two operations that do the same to the same numbers give the same ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from jax.extend import core

from grader.kernels.jaxprs import Atom, inner_jaxprs
from grader.kernels.known_values import CALLS
from grader.kernels.pallas_params import KERNELS

Numbers = tuple[int, ...]


def repeated(closed: core.ClosedJaxpr) -> list[int]:
    """For each kernel of a trace, in program order, the number of the first that does the same."""
    reader = _Reader()
    reader.read(closed.jaxpr, reader.fresh(closed.jaxpr.invars), {})
    return reader.found


class _Reader:
    """Walks a trace; what has been seen in one body of a loop or branch counts only there."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self._next = itertools.count()
        self._literals: dict[str, int] = {}

    def fresh(self, of: Sequence[object]) -> Numbers:
        """Numbers that no other value has."""
        return tuple(next(self._next) for _ in of)

    def read(self, jaxpr: core.Jaxpr, inputs: Numbers, seen: dict[Any, Any]) -> Numbers:
        """The numbers of a jaxpr's results, given those of its inputs."""
        numbers = dict(zip(map(id, jaxpr.invars), inputs, strict=True))
        numbers.update(zip(map(id, jaxpr.constvars), self.fresh(jaxpr.constvars), strict=True))

        def number(atom: Atom) -> int:
            if not isinstance(atom, core.Literal):
                return numbers[id(atom)]
            return self._literals.setdefault(f"{atom.aval} {atom.val}", next(self._next))

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, tuple(map(number, eqn.invars)), seen)
            numbers.update(zip(map(id, eqn.outvars), results, strict=True))
        return tuple(map(number, jaxpr.outvars))

    def _equation(self, eqn: core.JaxprEqn, inputs: Numbers, seen: dict[Any, Any]) -> Numbers:
        name, inner = eqn.primitive.name, inner_jaxprs(eqn)
        if name in KERNELS:
            return self._kernel(eqn, inputs, seen)
        if len(inner) == 1 and CALLS.get(name) in eqn.params:
            return self.read(inner[0], inputs, seen)
        for jaxpr in inner:
            self.read(jaxpr, self.fresh(jaxpr.invars), {})
        if inner or eqn.effects:
            return self.fresh(eqn.outvars)
        key = (name, inputs, str(eqn.params))
        return seen.setdefault(key, self.fresh(eqn.outvars))

    def _kernel(self, eqn: core.JaxprEqn, inputs: Numbers, seen: dict[Any, Any]) -> Numbers:
        earlier = seen.setdefault((eqn.primitive.name, inputs), [])
        pure = not eqn.effects and not asks_to_be_kept(eqn)
        for other, first, results in earlier if pure else ():
            if str(other.params) == str(eqn.params):  # long, so only where all else is the same
                self.found.append(first)
                return results
        results, number = self.fresh(eqn.outvars), len(self.found)
        if pure:
            earlier.append((eqn, number, results))
        self.found.append(number)
        return results


def asks_to_be_kept(kernel: core.JaxprEqn) -> str:
    """What a kernel says of its side effects, by no effect but by a parameter: "" if nothing."""
    word = getattr(kernel.params.get("compiler_params"), "has_side_effects", False)
    if isinstance(word, bool):
        return "side_effecting" if word else ""
    told = str(getattr(word, "value", word))
    return "" if told == "pure" else told
