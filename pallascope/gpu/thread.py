"""Follows one GPU thread through its trace: its events, in order.

Only whole numbers are computed, by which a kernel decides where it is and what it does next. What
depends on data, or on an operation that is not known here, is not followed: NotFollowed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jax.extend import core

from pallascope.gpu.operations import (
    LookupTable,
    NotFollowed,
    Reading,
    events_of,
    has_events,
)
from pallascope.gpu.thread_events import Event, GpuMemory, Number, computed, resolved
from pallascope.kernels.jaxprs import inner_jaxprs, loop_carried, loop_constants

#: Equations of one thread that are looked at; more are not followed.
MOST = 60_000

Events = Generator[Event, None, list[Any]]
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2")
#: What touches Refs and has no say in the order of things.
_LOADS = ("get", "load")
_HARMLESS = (*_LOADS, "set_max_registers", "set_max_registers_p", "async_prefetch")


@dataclass(slots=True)
class Thread:
    """One thread: where it is, by axis, and what it has allocated so far."""

    number: int
    axes: Mapping[Any, int]
    file: str
    left: int = MOST
    shared: int = 0
    own: int = 0

    def follow(self, jaxpr: core.Jaxpr, given: list[Any]) -> Events:
        """The events of a jaxpr with these inputs, constants first. Returns what comes out."""
        env: dict[core.Var, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], given, strict=True))
        for eqn in jaxpr.eqns:
            self.left -= 1
            if self.left < 0:
                raise NotFollowed("too long")
            operands = [resolved(env, atom) for atom in eqn.invars]
            results = yield from self._equation(eqn, operands, env)
            env.update(zip(eqn.outvars, results, strict=True))
        return [resolved(env, atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: core.JaxprEqn, operands: list[Any], env: dict[Any, Any]) -> Events:
        name = eqn.primitive.name
        unknown = [None] * len(eqn.outvars)
        if name == "axis_index":
            return [self.axes.get(eqn.params["axis_name"])]
        if name == "program_id":
            sizes = list(self.axes.values())
            axis = eqn.params["axis"]
            return [sizes[axis] if axis < len(sizes) else None]
        if name in _CALLS:
            (inner,) = inner_jaxprs(eqn)
            return (yield from self.follow(inner, operands[len(operands) - len(inner.invars) :]))
        if name == "run_scoped":
            return (yield from self._scope(eqn, operands))
        if name == "cond":
            return (yield from self._cond(eqn, operands))
        if name == "scan":
            return (yield from self._scan(eqn, operands))
        if name == "while":
            return (yield from self._while(eqn, operands))
        if inner_jaxprs(eqn):
            if _is_quiet(eqn):
                return unknown
            raise NotFollowed(name)
        if name in _LOADS and operands and isinstance(operands[0], LookupTable):
            return [Reading(eqn, env, self.file).entry()]
        if has_events(name):
            yield from events_of(Reading(eqn, env, self.file))
            return unknown
        if any(isinstance(value, GpuMemory) for value in operands) and name not in _HARMLESS:
            raise NotFollowed(name)
        if eqn.effects and name not in _HARMLESS and not name.startswith("debug"):
            raise NotFollowed(name)
        numbers: list[Number | None] = [
            None if isinstance(v, (GpuMemory, LookupTable)) else v for v in operands
        ]
        return [computed(eqn, numbers)] if len(eqn.outvars) == 1 else unknown

    def _scope(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        body: Any = eqn.params["jaxpr"]
        body = getattr(body, "jaxpr", body)
        collective = bool(eqn.params.get("collective_axes"))
        names = getattr(body.debug_info, "arg_names", None) or ()
        made: list[Any] = []
        for position, var in enumerate(body.invars):
            if collective:
                self.shared += 1
                key: tuple[Any, ...] = ("shared", self.shared)
            else:
                self.own += 1
                key = ("own", self.number, self.own)
            given = str(names[position]) if position < len(names) else ""
            made.append(GpuMemory(key, given or str(var.aval), _arrivals(var.aval)))
        return (yield from self.follow(body, [*operands, *made]))

    def _cond(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        branches = [getattr(branch, "jaxpr", branch) for branch in eqn.params["branches"]]
        which, *rest = operands
        if which is None:
            if _is_quiet(eqn):
                return [None] * len(eqn.outvars)
            raise NotFollowed("a branch that depends on data")
        chosen = branches[min(max(int(which), 0), len(branches) - 1)]
        return (yield from self.follow(chosen, rest))

    def _scan(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        (body,) = inner_jaxprs(eqn)
        fixed, kept = loop_constants(eqn), loop_carried(eqn)
        constants, carry = operands[:fixed], operands[fixed : fixed + kept]
        columns = [None] * (len(operands) - fixed - kept)
        for _ in range(int(eqn.params["length"])):
            results = yield from self.follow(body, [*constants, *carry, *columns])
            carry = results[:kept]
        return [*carry, *[None] * (len(eqn.outvars) - kept)]

    def _while(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        stop, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
        before, fixed = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        asked, constants = operands[:before], operands[before : before + fixed]
        carry = operands[before + fixed :]
        while True:
            (on,) = yield from self.follow(stop, [*asked, *carry])
            if on is None:
                if _is_quiet(eqn):
                    return [None] * len(eqn.outvars)
                raise NotFollowed("a loop that depends on data")
            if not on:
                return carry
            carry = yield from self.follow(body, [*constants, *carry])


def _is_quiet(eqn: core.JaxprEqn) -> bool:
    """Whether nothing inside an equation touches a Ref or a barrier, reads of Refs aside."""
    names = [each.primitive.name for inner in inner_jaxprs(eqn) for each in _every(inner)]
    return not any(has_events(name) or name == "run_scoped" for name in names) and not any(
        "barrier" in name or "semaphore" in name or "tcgen05" in name or "async" in name
        for name in names
    )


def _every(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from _every(inner)


def _arrivals(aval: Any) -> int:
    dtype = getattr(getattr(aval, "inner_aval", aval), "dtype", None)
    if type(dtype).__name__ != "BarrierType":
        return 0
    return int(getattr(dtype, "num_arrivals", 0))
