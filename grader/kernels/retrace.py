"""A trace made anew with some of its operations replaced, also where they are nested."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core

from grader.kernels.jaxprs import Shaped, primitives

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
    from grader.kernels.jax_internals import user_context

    source: Any = eqn.source_info
    context: Any = eqn.ctx
    with user_context(source.traceback, name_stack=source.name_stack), context.manager:
        yield
