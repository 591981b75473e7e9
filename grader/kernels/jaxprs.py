"""Looking into jaxprs: what several readers of a trace share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar, runtime_checkable

import jax
import numpy as np
from jax.core import AbstractValue
from jax.extend import core

T = TypeVar("T")


Atom = core.Var | core.Literal


@runtime_checkable
class Shaped(Protocol):
    """An abstract value with a shape and a dtype: an array, or a Ref to one; not a token."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...


def array_struct(atom: Atom) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array in a jaxpr, or of what a Ref refers to."""
    assert isinstance(atom.aval, Shaped), atom.aval
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)


def discharged(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """A jaxpr with values in place of Refs: what is written to a Ref that is given, it returns."""
    from grader.kernels.jax_internals import discharge_state

    return discharge_state(closed)


def inner_jaxprs(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    """The jaxprs among an equation's parameters: branches, loop bodies, called functions."""
    return list(core.jaxprs_in_params(eqn.params))


def expanded(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    """What an operation of the newest jax stands for, where no parameter holds it: jnp.searchsorted
    and others are one operation until they are lowered. Empty for all other equations."""
    expand = getattr(eqn.primitive, "to_lojax", None)
    if eqn.primitive.name != "call_hi_primitive" or expand is None:
        return []
    arrays = map(array_struct, eqn.invars)
    return [jax.make_jaxpr(lambda *args: expand(*args, **eqn.params))(*arrays).jaxpr]


def inner_refs(eqn: core.JaxprEqn, inner: core.Jaxpr, refs: Mapping[int, T]) -> dict[int, T]:
    """What is told of an equation's inputs, by their ids, told of those of an inner jaxpr.

    A cond's first operand chooses the branch; the rest line up with each branch's. The body of a
    run_scoped takes its buffers as inputs, what it closes over as constants.
    """
    inputs = inner.constvars if eqn.primitive.name == "run_scoped" else inner.invars
    aligned = eqn.invars[len(eqn.invars) - len(inputs) :]
    pairs = zip(inputs, aligned, strict=False)
    return {id(var): refs[id(given)] for var, given in pairs if id(given) in refs}


def primitives(jaxpr: core.Jaxpr) -> Iterator[str]:
    """The names of all primitives of a jaxpr, inner ones included, in program order."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in inner_jaxprs(eqn):
            yield from primitives(inner)


def is_scalar(atom: Atom) -> bool:
    """Whether an input of a kernel is a number, not a Ref: `pl.kernel` may close over such."""
    return not hasattr(atom.aval, "inner_aval") and getattr(atom.aval, "shape", None) == ()


#: How the memory spaces of Refs that stay in HBM are spelled.
IN_HBM = ("any", "hbm")


def memory_space(aval: AbstractValue) -> str:
    """The memory space that a Ref is declared to be in; "default" where none is named."""
    space = getattr(aval, "memory_space", None)
    return str(getattr(space, "value", space) or "default")
