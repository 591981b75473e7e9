"""Arrays whose contents a trace holds: they were computed before it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jax.extend import core

from grader.kernels.calls import array_type
from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.source_lines import line_in
from grader.model import Constant

#: What a constant may take, in bytes: a few numbers by which a launch is arranged.
SMALL = 4 << 10


def large_constants(closed: core.ClosedJaxpr, file: str) -> Iterator[Constant]:
    """The arrays of more than SMALL bytes whose contents a trace holds, kernels included."""
    yield from _large(closed.jaxpr, closed.consts, file)


def _large(jaxpr: core.Jaxpr, consts: list[object], file: str) -> Iterator[Constant]:
    large = {
        id(var): size
        for var, const in zip(jaxpr.constvars, consts, strict=False)
        if (size := _bytes(const)) > SMALL
    }
    yield from _used(jaxpr, large, file)
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, core.Literal) and (size := _bytes(atom.val)) > SMALL:
                yield Constant(array_type(atom.aval), size, line_in(eqn, file))
        for value in _closed(eqn):
            yield from _large(value.jaxpr, value.consts, file)
        for inner in inner_jaxprs(eqn):
            if not any(inner is value.jaxpr for value in _closed(eqn)):
                yield from _large(inner, [], file)


def _used(jaxpr: core.Jaxpr, large: Mapping[int, int], file: str) -> Iterator[Constant]:
    """The large constants of one jaxpr, with the line of the equation that uses each first."""
    for var in jaxpr.constvars:
        if id(var) in large:
            uses = (eqn for eqn in jaxpr.eqns if any(atom is var for atom in eqn.invars))
            first = next(uses, None)
            line = line_in(first, file) if first is not None else 0
            yield Constant(array_type(var.aval), large[id(var)], line)


def _closed(eqn: core.JaxprEqn) -> Iterator[core.ClosedJaxpr]:
    for value in eqn.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, core.ClosedJaxpr):
                yield one


def _bytes(value: object) -> int:
    return int(getattr(value, "nbytes", 0) or 0)
