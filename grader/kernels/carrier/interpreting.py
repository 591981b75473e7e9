"""Who asks to be interpreted, and how it is decided: the parameter `interpret` of each kernel.

A launch is traced once, so that the mode in which it runs is a change to its trace. The TPU
interpreter orders its host callbacks by an effect, which each jaxpr around a kernel names too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from jax.experimental.pallas import tpu as pltpu
from jax.extend import core

from grader.kernels.carrier.tracebacks import stack_of
from grader.kernels.jax_internals import get_interpret_effects
from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.pallas_params import KERNELS, is_pallas_call, semantics

Interpret = bool | pltpu.InterpretParams
_CLOSED_TOO = core.ClosedJaxpr is not core.Jaxpr  # before jax 0.12, one class holds the other


def with_interpret(closed: core.ClosedJaxpr, params: Interpret) -> core.ClosedJaxpr:
    """The trace, each of its kernels with `interpret=params`, wherever it is nested.

    False is for the compiler, True for the plain interpreter, InterpretParams for the TPU's. What
    a launch has itself asked for is replaced. The trace that was given stays as it is.
    """
    return _Change(params).closed(closed)


def asks_to_interpret(closed: core.ClosedJaxpr) -> tuple[int, ...]:
    """The lines from which a kernel was launched with an `interpret` other than False.

    In program order, each once; 0 where the line is not known.
    """
    lines = (
        _line(eqn)
        for eqn in _every(closed.jaxpr)
        if eqn.primitive.name in KERNELS and eqn.params.get("interpret") not in (None, False)
    )
    return tuple(dict.fromkeys(lines))


def _every(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from _every(inner)


def _line(eqn: core.JaxprEqn) -> int:
    traceback = eqn.source_info.traceback
    stack = stack_of(traceback) if traceback is not None else ()
    return stack[0].line if stack else 0


def _of_every_dimension(kernel: core.JaxprEqn) -> dict[str, Any]:
    """`compiler_params` with the semantics of each grid dimension, if vmap has added some.

    Mosaic adds theirs; the interpreter wants to be told.
    """
    params: Any = kernel.params.get("compiler_params")
    given = getattr(params, "dimension_semantics", None)
    if not given or not is_pallas_call(kernel) or len(every := semantics(kernel)) == len(given):
        return {}
    return {"compiler_params": dataclasses.replace(params, dimension_semantics=every)}


class _Change:
    """One change of the parameter, all over a trace. A jaxpr that is shared stays shared."""

    def __init__(self, params: Interpret) -> None:
        self._params = params
        self._effects = set(get_interpret_effects(params))
        self._done: dict[int, tuple[core.Jaxpr, core.Jaxpr, bool]] = {}

    def closed(self, closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
        if not _CLOSED_TOO:
            return self._jaxpr(closed)[0]
        return core.ClosedJaxpr(self._jaxpr(closed.jaxpr)[0], closed.consts)

    def _jaxpr(self, jaxpr: Any) -> tuple[Any, bool]:
        """A jaxpr after the change, and whether there is a kernel in it."""
        if (known := self._done.get(id(jaxpr))) is None:
            eqns = [self._equation(eqn) for eqn in jaxpr.eqns]
            holds = any(kernel for _, kernel in eqns)
            changed = jaxpr
            if holds:
                effects = {*jaxpr.effects, *self._effects}
                changed = jaxpr.replace(eqns=[eqn for eqn, _ in eqns], effects=effects)
            known = self._done[id(jaxpr)] = (jaxpr, changed, holds)
        return known[1:]

    def _equation(self, eqn: core.JaxprEqn) -> tuple[core.JaxprEqn, bool]:
        kernel = eqn.primitive.name in KERNELS
        params, holds = {}, kernel
        for name, value in eqn.params.items():
            params[name], inside = self._value(value)
            holds = holds or inside
        if not holds:
            return eqn, False
        effects = set(eqn.effects)
        if kernel:
            effects -= set(get_interpret_effects(params.get("interpret", False)))
            params["interpret"] = self._params
            if self._params is not False:
                params |= _of_every_dimension(eqn)
        return eqn.replace(params=params, effects=effects | self._effects), True

    def _value(self, value: Any) -> tuple[Any, bool]:
        """A parameter after the change: a jaxpr, closed or not, or several."""
        if isinstance(value, core.Jaxpr):
            return self._jaxpr(value)
        if isinstance(value, core.ClosedJaxpr):
            jaxpr, holds = self._jaxpr(value.jaxpr)
            return (core.ClosedJaxpr(jaxpr, value.consts) if holds else value), holds
        if type(value) in (tuple, list):
            members = [self._value(member) for member in value]
            if any(holds for _, holds in members):
                return type(value)(member for member, _ in members), True
        return value, False
