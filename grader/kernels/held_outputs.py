"""Which results of a launch hold an output of its last kernel, element by element in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jax.extend import core

from grader.kernels.bitcasts import keeps_order
from grader.kernels.jaxprs import Shaped
from grader.kernels.known_values import CALLS
from grader.kernels.pallas_params import is_pallas_call

#: A kernel and the number of one of its outputs.
_Origin = tuple[core.JaxprEqn, int] | None


def held_outputs(closed: core.ClosedJaxpr, last: core.JaxprEqn | None) -> tuple[int | None, ...]:
    """For each result the number of the output of `last` that it is, unchanged or reshaped."""
    origins = _origins(closed.jaxpr, [None] * len(closed.jaxpr.invars))
    return tuple(n[1] if n is not None and n[0] is last else None for n in origins)


def _origins(jaxpr: core.Jaxpr, given: Sequence[_Origin]) -> list[_Origin]:
    """Where the results of a jaxpr come from, if its inputs come from `given`."""
    known: dict[core.Var, _Origin] = dict(zip(jaxpr.invars, given, strict=True))

    def of(atom: core.Var | core.Literal) -> _Origin:
        return None if isinstance(atom, core.Literal) else known.get(atom)

    for eqn in jaxpr.eqns:
        inputs = [of(atom) for atom in eqn.invars]
        name = eqn.primitive.name
        if is_pallas_call(eqn):
            made: list[_Origin] = [(eqn, number) for number in range(len(eqn.outvars))]
        elif name in CALLS:
            inner = eqn.params[CALLS[name]]
            made = _origins(getattr(inner, "jaxpr", inner), inputs)
        elif len(eqn.outvars) == 1 and inputs and _same_order(eqn):
            made = inputs[:1]
        else:
            continue
        known.update(zip(eqn.outvars, made, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _same_order(eqn: core.JaxprEqn) -> bool:
    """Whether an operation gives all elements of its input in their row-major order."""
    given, made = eqn.invars[0].aval, eqn.outvars[0].aval
    if not (isinstance(given, Shaped) and isinstance(made, Shaped)):
        return False
    same = math.prod(given.shape) == math.prod(made.shape)
    return same and keeps_order(eqn, tuple(given.shape))
