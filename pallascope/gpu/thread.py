"""Follows one GPU thread through its trace: its events, in order.

It computes only the whole numbers from which a kernel derives its position and its control flow. A
thread that depends on data, or on an unknown operation, isn't followed: NotKnown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend import core

from pallascope.gpu.operations import (
    LookupTable,
    Reading,
    accumulating,
    events_of,
    has_events,
)
from pallascope.gpu.thread_events import Event, GpuEventKind, GpuMemory, is_whole, resolved
from pallascope.kernels.evaluator import (
    Env,
    EquationBudget,
    Events,
    NotKnown,
    PartialEvaluator,
    computed,
    happens,
)
from pallascope.kernels.jaxprs import Atom, inner_jaxprs, primitives

#: The maximum number of equations of one thread; longer threads aren't followed.
MOST = 60_000

#: Operations on Refs that don't affect the order of events.
_LOADS = ("get", "load")
_HARMLESS = (*_LOADS, "set_max_registers", "set_max_registers_p", "async_prefetch")


@dataclass
class Thread(PartialEvaluator):
    """One thread: its position along each axis, and its allocations so far."""

    number: int
    axes: Mapping[Any, int]
    file: str
    budget: EquationBudget = field(default_factory=lambda: EquationBudget(MOST))
    shared: int = 0
    own: int = 0

    def value(self, atom: Atom, env: Env) -> Any:
        return resolved(env, atom)

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any] | Events:
        name = eqn.primitive.name
        if name == "axis_index":
            return [self.axes.get(eqn.params["axis_name"])]
        if name == "program_id":
            return [dict(enumerate(self.axes.values())).get(eqn.params["axis"])]
        if name == "run_state":
            return self._accumulate(eqn, inputs)
        if inner_jaxprs(eqn):
            return PartialEvaluator.operation(self, eqn, inputs, env)
        if name in _LOADS and inputs and isinstance(inputs[0], LookupTable):
            return [Reading(eqn, env, self.file).entry()]
        if has_events(name):
            return happens(eqn, *events_of(Reading(eqn, env, self.file)))
        if any(isinstance(value, GpuMemory) for value in inputs) and name not in _HARMLESS:
            raise NotKnown(name)
        if eqn.effects and name not in _HARMLESS and not name.startswith("debug"):
            raise NotKnown(name)
        if len(eqn.outvars) != 1 or not is_whole(eqn.outvars[0]):
            return self.unknown(eqn)
        objects = (GpuMemory, LookupTable)
        return [computed(eqn, [None if isinstance(v, objects) else v for v in inputs])]

    def _accumulate(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Events:
        """A `pl.run_state`: at its end, all products of the thread have ended."""
        body, plain = accumulating(eqn)
        values = iter((yield from self.events(body, inputs)))
        yield Event(GpuEventKind.WAIT_WGMMA, count=0)
        return [
            next(values) if is_plain else given
            for given, is_plain in zip(inputs, plain, strict=True)
        ]

    def acts(self, eqn: core.JaxprEqn) -> bool:
        names = {name for inner in inner_jaxprs(eqn) for name in primitives(inner)}
        parts = ("barrier", "semaphore", "tcgen05", "async")
        return any(
            has_events(name) or name == "run_scoped" or any(part in name for part in parts)
            for name in names
        )

    def buffers(self, eqn: core.JaxprEqn, body: core.Jaxpr) -> list[Any]:
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
        return made


def _arrivals(aval: Any) -> int:
    dtype = getattr(getattr(aval, "inner_aval", aval), "dtype", None)
    if type(dtype).__name__ != "BarrierType":
        return 0
    return int(getattr(dtype, "num_arrivals", 0))
