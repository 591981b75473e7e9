"""Reads and rewrites jaxprs: sub-jaxprs, loops, discharged Refs.

Looking into jaxprs: what several readers of a trace share.

What loops keep in their equations: what comes in again, and how many turns they make.

A trace made anew with some of its operations replaced, also where they are nested.

A trace whose Refs outside of kernels are turned into values, so that every kernel is one call.
A `pl.core_map`, and a `pl.kernel` that is given Refs, change arrays in place: what comes out of
them is no result of theirs. JAX itself rewrites them before it lowers: Refs become values, a
`core_map` becomes an `mpmd_map` that returns what it has written. The same is done here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import AbstractValue
from jax.extend import core

from pallascope.kernels.pallas_params import KERNELS

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
    from pallascope.kernels.jax_internals import discharge_state

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


def loop_constants(scan: core.JaxprEqn) -> int:
    """How many inputs of a scan are the same in every turn; they come first."""
    return _counts(scan)[0]


def loop_carried(scan: core.JaxprEqn) -> int:
    """How many inputs of a scan, after the constants, are results of the turn before."""
    return _counts(scan)[1]


def _counts(scan: core.JaxprEqn) -> tuple[int, int]:
    match scan.params:
        case {"num_consts": int(fixed), "num_carry": int(carry)}:  # before jax 0.12
            return fixed, carry
    try:
        fixed, carry, _ = scan.params["ft_in"].unpack()
        return len(list(fixed)), len(list(carry))
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0, 0  # moved again; then what happens in loops is not known


def turns(loop: core.JaxprEqn) -> int | None:
    """How often the body of a `while` runs; None unless it counts by ones to a known bound.

    That is what `lax.fori_loop` makes of bounds that are arrays: a count, the bound, and the rest.
    """
    stop, body = loop.params["cond_jaxpr"].jaxpr, loop.params["body_jaxpr"].jaxpr
    fixed, first = loop.params["body_nconsts"], loop.params["cond_nconsts"]
    if len(stop.eqns) != 1 or stop.eqns[0].primitive.name != "lt" or first:
        return None
    (asked,) = stop.eqns
    if stop.outvars != asked.outvars or not all(var in stop.invars for var in asked.invars):
        return None
    count, bound = (stop.invars.index(var) for var in asked.invars)
    carry = body.invars[fixed:]
    if body.outvars[bound] is not carry[bound] or not _one_more(body, count, carry[count]):
        return None
    start, end = (loop.invars[fixed + position] for position in (count, bound))
    if not (isinstance(start, core.Literal) and isinstance(end, core.Literal)):
        return None
    return max(int(end.val) - int(start.val), 0)


def _one_more(body: core.Jaxpr, position: int, than: core.Var) -> bool:
    """Whether a result of a body is one of its inputs, plus 1."""
    made = next((eqn for eqn in body.eqns if body.outvars[position] in eqn.outvars), None)
    if made is None or made.primitive.name != "add":
        return False
    by = made.invars[1]
    return made.invars[0] is than and isinstance(by, core.Literal) and by.val == 1


#: Of an equation and its inputs, the results that are to stand for its own.
Replacement = Callable[[core.JaxprEqn, Sequence[Any]], Sequence[Any]]


def retraced(closed: core.ClosedJaxpr, by: Mapping[str, Replacement]) -> core.ClosedJaxpr:
    """A trace in which the primitives of these names are replaced, and nothing else changes.

    Effects and shapes follow from what is put in, and each operation keeps the line that it came
    from. What is inside of a replaced operation is left to its replacement. Inner jaxprs that take
    Refs, such as the bodies of kernels, stay as they are.
    """

    def program(*args: Any) -> Sequence[Any]:
        return _evaluated(closed.jaxpr, closed.consts, args, by)

    return jax.make_jaxpr(program)(*map(_struct, closed.jaxpr.invars))


def _struct(var: core.Var) -> jax.ShapeDtypeStruct:
    aval: Any = var.aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _evaluated(
    jaxpr: core.Jaxpr, consts: Sequence[Any], args: Sequence[Any], by: Mapping[str, Replacement]
) -> Sequence[Any]:
    values: dict[core.Var, Any] = dict(
        zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True)
    )
    for eqn in jaxpr.eqns:
        inputs = [v.val if isinstance(v, core.Literal) else values[v] for v in eqn.invars]
        with _at(eqn):
            results = _results(eqn, inputs, by)
        values.update(zip(eqn.outvars, results, strict=True))
    return [v.val if isinstance(v, core.Literal) else values[v] for v in jaxpr.outvars]


def _results(
    eqn: core.JaxprEqn, inputs: Sequence[Any], by: Mapping[str, Replacement]
) -> Sequence[Any]:
    primitive = eqn.primitive
    if replacement := by.get(primitive.name):
        return replacement(eqn, inputs)
    params = {name: _replaced(value, by) for name, value in eqn.params.items()}
    results = primitive.bind(*inputs, **primitive.get_bind_params(params))
    return results if primitive.multiple_results else [results]


def _replaced(param: Any, by: Mapping[str, Replacement]) -> Any:
    """A parameter of an equation, with the jaxprs in it made anew where something is replaced."""
    if isinstance(param, tuple):
        return tuple(_replaced(one, by) for one in param) if type(param) is tuple else param
    if isinstance(param, core.ClosedJaxpr):
        inner, concerned = param, _concerned(param.jaxpr, by)
    elif isinstance(param, core.Jaxpr) and not param.constvars:
        inner, concerned = core.ClosedJaxpr(param, ()), _concerned(param, by)
    else:
        return param
    if not concerned or not all(map(_is_array, inner.jaxpr.invars)):
        return param
    made = retraced(inner, by)
    return made if isinstance(param, core.ClosedJaxpr) else made.jaxpr


def _is_array(var: core.Var) -> bool:
    return isinstance(var.aval, Shaped) and not hasattr(var.aval, "inner_aval")


def _concerned(jaxpr: core.Jaxpr, by: Mapping[str, Replacement]) -> bool:
    return any(name in by for name in primitives(jaxpr))


@contextlib.contextmanager
def _at(eqn: core.JaxprEqn) -> Iterator[None]:
    """What is traced in this context comes from the line and the context of an equation."""
    from pallascope.kernels.jax_internals import user_context

    source: Any = eqn.source_info
    context: Any = eqn.ctx
    with user_context(source.traceback, name_stack=source.name_stack), context.manager:
        yield


_MADE = ("new_ref", "ref", "empty_ref", "run_state", "core_map")


def without_refs(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same program without Refs outside of its kernels; the trace itself where it has none.

    Within `for_chip`, as the trace was made. Raises UnsupportedJax, and what jax raises for a
    kernel that no mesh of this version takes.
    """
    if not any(name in _MADE for name in _outside(closed.jaxpr)):
        return closed
    values = discharged(closed)
    if "run_state" in _outside(values.jaxpr):
        values = retraced(values, {"run_state": _run_state})
    return values


def _outside(jaxpr: core.Jaxpr) -> Iterator[str]:
    """The names of the primitives outside of kernels."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        if eqn.primitive.name not in KERNELS:
            for inner in inner_jaxprs(eqn):
                yield from _outside(inner)


def _run_state(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    """What the Refs of a `pl.run_state` hold at its end; some are given no value at its start."""
    given = iter(inputs)
    state = zip(eqn.params["is_initialized"], eqn.params["jaxpr"].invars, strict=True)
    values = [next(given) if has_value else _unwritten(var) for has_value, var in state]
    inner = without_refs(discharged(core.ClosedJaxpr(eqn.params["jaxpr"], ())))
    return core.jaxpr_as_fun(inner)(*values)


def _unwritten(ref: core.Var) -> jax.Array:
    struct = array_struct(ref)
    return jnp.empty(struct.shape, struct.dtype)
