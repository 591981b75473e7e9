"""Evaluates jaxprs equation by equation, with values of any kind: loops, scans, branches, limits.

`Evaluator` is the loop over equations; a subclass defines values and operations.

`PartialEvaluator` evaluates the scalar part of a kernel's body without data. The conditions and
loops of most bodies depend only on the grid step and the place in a mesh, so it can list the events
of a body (copies, signals, barriers) in order.

`retraced` makes a trace again with some of its operations replaced, even if they are nested.

`without_refs` turns Refs outside of kernels into values, so that every kernel is one call. A
`pl.core_map`, and a `pl.kernel` with Refs as arguments, change arrays in place: their results
aren't outputs of the equation. JAX itself rewrites them before it lowers, and this does the same:
Refs become values, and a `core_map` becomes an `mpmd_map` that returns its writes.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from pallascope.kernels.jaxprs import (
    Atom,
    Shaped,
    array_struct,
    called,
    discharged,
    inner_except_kernels,
    inner_jaxprs,
    loop_carried,
    loop_constants,
    primitives,
    sites,
)

#: Yields the events of an evaluation, and returns the results.
Events = Generator[Any, None, list[Any]]
#: The values of a jaxpr's variables.
Env = dict[core.Var, Any]


class Evaluator:
    """Evaluates jaxprs. The value None stands for "unknown"."""

    def constant(self, value: Any) -> Any:
        """The value of a literal, or of a constant of a closed jaxpr."""
        return value

    def value(self, atom: Atom, env: Env) -> Any:
        """The value of an equation's input or of a jaxpr's result."""
        return self.constant(atom.val) if isinstance(atom, core.Literal) else env.get(atom)

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any] | Events:
        """The results of an equation; or a generator that yields events and returns the results."""
        raise NotImplementedError

    def events(self, jaxpr: Any, inputs: Sequence[Any], consts: Sequence[Any] = ()) -> Events:
        """The events of a jaxpr, closed or not, with these inputs; returns its results.

        `consts` are values for the constants of an open jaxpr; without them they are unknown.
        """
        given = consts or [self.constant(const) for const in getattr(jaxpr, "consts", ())]
        opened: core.Jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        env: Env = dict(zip(opened.constvars, given, strict=False))
        env.update(zip(opened.invars, inputs, strict=True))
        for eqn in opened.eqns:
            results = self.operation(eqn, [self.value(atom, env) for atom in eqn.invars], env)
            if isinstance(results, Generator):
                results = yield from results
            env.update(zip(eqn.outvars, results, strict=True))
        return [self.value(atom, env) for atom in opened.outvars]

    def evaluate(self, jaxpr: Any, inputs: Sequence[Any], consts: Sequence[Any] = ()) -> list[Any]:
        """The results of a jaxpr, closed or not, whose evaluation yields no events."""
        try:
            next(self.events(jaxpr, inputs, consts))
        except StopIteration as end:
            return end.value
        raise AssertionError("an event that nobody takes")


def bind(eqn: core.JaxprEqn, inputs: Sequence[Any], params: Mapping[str, Any] | None = None) -> Any:
    """The results of an operation on arrays or tracers, with its own or with other parameters."""
    given = eqn.primitive.get_bind_params(dict(params or eqn.params))
    results = eqn.primitive.bind(*inputs, **given)
    return results if eqn.primitive.multiple_results else [results]


class NotKnown(ValueError):
    """An event depends on something known only at run time; the message describes it."""


@dataclass(slots=True)
class EquationBudget:
    """The number of equations that may still be evaluated."""

    left: int

    def spend(self, count: int) -> None:
        """Raises NotKnown if nothing is left."""
        self.left -= count
        if self.left < 0:
            raise NotKnown("its loops have too many iterations to be followed")


class PartialEvaluator(Evaluator):
    """Evaluates scalars, and the conditions, loops and scopes that depend on them.

    A value is a number, an object of the subclass, or None if it is unknown.
    """

    budget: EquationBudget

    def constant(self, value: Any) -> Any:
        return None

    def acts(self, eqn: core.JaxprEqn) -> bool:
        """Whether there are events, or may be, in the jaxprs inside an equation."""
        raise NotImplementedError

    def is_skipped(self, scan: core.JaxprEqn) -> bool:
        """Whether a scan isn't evaluated, so that its results are unknown."""
        return False

    def buffers(self, eqn: core.JaxprEqn, body: core.Jaxpr) -> list[Any]:
        """The values of the buffers that a run_scoped allocates."""
        raise NotImplementedError

    def events(self, jaxpr: Any, inputs: Sequence[Any], consts: Sequence[Any] = ()) -> Events:
        self.budget.spend(len(jaxpr.eqns))
        return Evaluator.events(self, jaxpr, inputs, consts)

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any] | Events:
        inner = inner_jaxprs(eqn)
        match eqn.primitive.name:
            case "cond" if inputs[0] is None:
                return self.unknown(eqn, "under a condition on data that the kernel reads")
            case "cond":
                within = 0 <= int(inputs[0]) < len(inner)  # otherwise Mosaic takes the last
                return self.events(inner[int(inputs[0]) if within else -1], inputs[1:])
            case "scan":
                return self.unknown(eqn) if self.is_skipped(eqn) else self._scan(eqn, inputs)
            case "while":
                return self._while(eqn, inputs)
            case "run_scoped":
                return self.events(inner[0], self.buffers(eqn, inner[0]), inputs)
            case _ if called(eqn) is not None:
                return self.events(inner[0], inputs)
            case _ if inner:
                return self.unknown(eqn, "in an operation whose copies are not counted")
        return self.unknown(eqn) if len(eqn.outvars) != 1 else [computed(eqn, inputs)]

    def unknown(self, eqn: core.JaxprEqn, why: str = "") -> Sequence[Any]:
        """Unknown results. Raises NotKnown if `why` is given and the equation acts."""
        if why and self.acts(eqn):
            raise NotKnown(why)
        return [None] * len(eqn.outvars)

    def _scan(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Events:
        (body,) = inner_jaxprs(eqn)
        fixed, count = loop_constants(eqn), loop_carried(eqn)
        carry, rows = inputs[fixed : fixed + count], [None] * (len(inputs) - fixed - count)
        for _ in range(int(eqn.params["length"])):
            results = yield from self.events(body, [*inputs[:fixed], *carry, *rows])
            carry = results[:count]
        return [*carry, *[None] * (len(eqn.outvars) - count)]

    def _while(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Events:
        stop, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
        first = eqn.params["cond_nconsts"]
        fixed = first + eqn.params["body_nconsts"]
        carry = inputs[fixed:]
        while True:
            (goes_on,) = yield from self.events(stop, [*inputs[:first], *carry])
            if goes_on is None:
                why = "in a loop whose length depends on data that the kernel reads"
                return list(self.unknown(eqn, why))
            if not goes_on:
                return carry
            carry = yield from self.events(body, [*inputs[first:fixed], *carry])


def happens(eqn: core.JaxprEqn, *events: Any) -> Events:
    """These events, and unknown results."""
    yield from events
    return [None] * len(eqn.outvars)


#: A known number, or None.
Number = bool | int | float | None


def computed(eqn: core.JaxprEqn, inputs: Sequence[Number]) -> Number:
    """The result of an operation on numbers; None if it is unknown, or not a number."""
    name, (result, *more) = eqn.primitive.name, eqn.outvars or [None]
    if result is None or more or getattr(result.aval, "shape", None) != ():
        return None
    if name == "select_n":
        chosen = inputs[0]
        return None if chosen is None else inputs[1 + int(chosen)]
    if name in ("and", "or"):
        return _early(name, inputs)
    if None in inputs:
        return None
    if name == "convert_element_type":
        return _converted(inputs[0], np.dtype(eqn.params["new_dtype"]))
    function = _FUNCTIONS.get(name)
    try:
        return function(*inputs) if function else None
    except (ArithmeticError, TypeError, ValueError):
        return None


def _early(name: str, inputs: Sequence[Number]) -> Number:
    """Of two conditions, one may decide alone."""
    decides = name == "or"
    if any(one is decides for one in inputs):
        return decides
    one, other = inputs
    if one is None or other is None:
        return None
    return one | other if decides else one & other  # pyright: ignore[reportOperatorIssue]


def _converted(value: Number, dtype: np.dtype) -> Number:
    assert value is not None
    if dtype == np.bool_:
        return bool(value)
    return int(value) if np.issubdtype(dtype, np.integer) else float(value)


def _quotient(one: Any, other: Any) -> int | float:
    """As on the hardware: integers are rounded towards 0."""
    if isinstance(one, float) or isinstance(other, float):
        return one / other
    size = abs(one) // abs(other)
    return size if (one < 0) == (other < 0) else -size


def _rest(one: Any, other: Any) -> int | float:
    """With the sign of the dividend."""
    if isinstance(one, float) or isinstance(other, float):
        return math.fmod(one, other)
    return one - other * int(_quotient(one, other))


def _not(value: Any) -> bool | int:
    return not value if isinstance(value, bool) else ~value


def _itself(value: Any, *_: Any) -> Any:
    return value


_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": _quotient,
        "rem": _rest,
        "neg": operator.neg,
        "abs": abs,
        "sign": lambda value: (value > 0) - (value < 0),
        "max": max,
        "min": min,
        "clamp": lambda low, value, high: min(max(low, value), high),
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "xor": operator.xor,
        "not": _not,
        "shift_left": operator.lshift,
        "shift_right_arithmetic": operator.rshift,
        "shift_right_logical": operator.rshift,
        "multiple_of": _itself,
        "copy": _itself,
        "copy_p": _itself,
        "stop_gradient": _itself,
        "broadcast_in_dim": _itself,
        "reshape": _itself,
        "squeeze": _itself,
    }
)


#: Maps an equation and its inputs to the results that replace its own.
Replacement = Callable[[core.JaxprEqn, Sequence[Any]], Sequence[Any]]


def retraced(closed: core.ClosedJaxpr, by: Mapping[str, Replacement]) -> core.ClosedJaxpr:
    """A trace in which the primitives of these names are replaced, and nothing else changes.

    Effects and shapes follow from the replacements, and each operation keeps its source line. The
    replacement of an operation also replaces the jaxprs inside it. Inner jaxprs that take Refs,
    such as the bodies of kernels, stay as they are.
    """

    def program(*args: Any) -> Sequence[Any]:
        return _Retracer(by).evaluate(closed, args)

    return jax.make_jaxpr(program)(*map(_struct, closed.jaxpr.invars))


def _struct(var: core.Var) -> jax.ShapeDtypeStruct:
    aval: Any = var.aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


@dataclass
class _Retracer(Evaluator):
    by: Mapping[str, Replacement]

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any]:
        with _at(eqn):
            if replacement := self.by.get(eqn.primitive.name):
                return replacement(eqn, inputs)
            params = {name: _replaced(value, self.by) for name, value in eqn.params.items()}
            return bind(eqn, inputs, params)


def _replaced(param: Any, by: Mapping[str, Replacement]) -> Any:
    """A parameter of an equation; a jaxpr in it is retraced if it has something to replace."""
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
    return not by.keys().isdisjoint(primitives(jaxpr))


@contextlib.contextmanager
def _at(eqn: core.JaxprEqn) -> Iterator[None]:
    """Within it, traced operations get the source line and the context of an equation."""
    from pallascope.kernels.jax_internals import user_context

    source: Any = eqn.source_info
    context: Any = eqn.ctx
    with user_context(source.traceback, name_stack=source.name_stack), context.manager:
        yield


_MADE = ("new_ref", "ref", "empty_ref", "run_state", "core_map")


def without_refs(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same program without Refs outside of its kernels; the trace itself if it has none.

    Within `for_chip`, as when the trace was made. Raises UnsupportedJax, and what jax raises for a
    kernel that no mesh of this version takes.
    """
    if _outside(closed.jaxpr).isdisjoint(_MADE):
        return closed
    values = discharged(closed)
    if "run_state" in _outside(values.jaxpr):
        values = retraced(values, {"run_state": _run_state})
    return values


def _outside(jaxpr: core.Jaxpr) -> set[str]:
    """The names of the primitives outside of kernels."""
    return {site.eqn.primitive.name for site in sites(jaxpr, inner_except_kernels)}


def _run_state(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    """The contents of a `pl.run_state`'s Refs at its end; some have no value at its start."""
    given = iter(inputs)
    state = zip(eqn.params["is_initialized"], eqn.params["jaxpr"].invars, strict=True)
    values = [next(given) if has_value else _unwritten(var) for has_value, var in state]
    inner = without_refs(discharged(core.ClosedJaxpr(eqn.params["jaxpr"], ())))
    return core.jaxpr_as_fun(inner)(*values)


def _unwritten(ref: core.Var) -> jax.Array:
    struct = array_struct(ref)
    return jnp.empty(struct.shape, struct.dtype)
