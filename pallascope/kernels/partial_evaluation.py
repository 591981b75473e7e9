"""Evaluates a kernel's body without data: its DMAs, on every chip.

A kernel's body without its data: which copies it starts, and what it multiplies meanwhile.
Most conditions and loops of a kernel depend on nothing but the grid step and the chip's own number
in the mesh, also those that `emit_pipeline` keeps its books with. So the scalar core's part of a
body can be run by itself, for each chip, and copies counted that a trace alone can't count.

What each chip of a mesh copies by itself, chip by chip: see `partial_evaluation`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend import core

from pallascope.kernels.dma_events import (
    Awaited,
    Buffer,
    Event,
    Multiplied,
    Number,
    Place,
    Semaphore,
    Signalled,
    Started,
    Untold,
    Waited,
    Way,
    computed,
    end_of,
    number,
    receiver,
    semaphore,
    semaphore_at,
    value,
    ways,
)
from pallascope.kernels.jaxprs import IN_HBM, inner_jaxprs, loop_carried, loop_constants, primitives
from pallascope.kernels.manual_dma import NO_OPERAND, Dma, Dmas, is_remote, parts
from pallascope.kernels.operation_counts import product_flops
from pallascope.kernels.refs import names_of
from pallascope.model import Axes, Route, carried

#: So many equations of all steps and chips together; what takes more is not run.
MOST_EQUATIONS = 3_000_000

_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "remat2", "checkpoint")
_COPIES = ("dma_start", "dma_wait")
_UNNAMED = "a buffer of a pipeline"
_SIGNALS = ("semaphore_signal", "semaphore_wait")


@dataclass(slots=True)
class EquationBudget:
    """How many equations may still be looked at."""

    left: int = MOST_EQUATIONS

    def spend(self, count: int) -> None:
        """Raises Untold where nothing is left."""
        self.left -= count
        if self.left < 0:
            raise Untold("its loops make too many turns to be followed")


@dataclass(slots=True)
class DryRun:
    """One run of a body on one chip, over all steps of the grid.

    `places` are the chip's numbers along the axes of the mesh, `sizes` what the axes have, and
    `named` the grid's axes that have names. With `signals`, those of semaphores are followed too.
    """

    kernel: core.Jaxpr
    grid: tuple[int, ...]
    places: Mapping[str, int]
    sizes: Mapping[str, int]
    named: tuple[str, ...] = ()
    budget: EquationBudget = field(default_factory=EquationBudget)
    signals: bool = False
    _step: tuple[int, ...] = ()

    def events(self) -> Iterator[Event]:
        """What happens, in order. Raises Untold."""
        names = names_of(self.kernel)
        operands = [
            Buffer(at, names[at], at) if hasattr(var.aval, "inner_aval") else None
            for at, var in enumerate(self.kernel.invars)
        ]
        for step in itertools.product(*map(range, self.grid)):
            self._step = step
            yield from self._jaxpr(self.kernel, operands, [])

    def _jaxpr(
        self, jaxpr: core.Jaxpr, inputs: Sequence[Any], results: list[Any]
    ) -> Iterator[Event]:
        """What happens in a jaxpr; its results are added to `results`."""
        known: dict[core.Var, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
        yield from self._equations(jaxpr, known)
        results.extend(value(atom, known) for atom in jaxpr.outvars)

    def _equations(self, jaxpr: core.Jaxpr, known: dict[core.Var, Any]) -> Iterator[Event]:
        self.budget.spend(len(jaxpr.eqns))
        for eqn in jaxpr.eqns:
            found: list[Any] = []
            yield from self._equation(eqn, known, found)
            if len(found) == len(eqn.outvars):
                known.update(zip(eqn.outvars, found, strict=True))

    def _equation(
        self, eqn: core.JaxprEqn, known: dict[core.Var, Any], found: list[Any]
    ) -> Iterator[Event]:
        name = eqn.primitive.name
        inputs = [value(atom, known) for atom in eqn.invars]
        match name:
            case "dma_start" | "dma_wait":
                yield self._copy(eqn, known)
            case "semaphore_signal" | "semaphore_wait" if self.signals:
                yield self._signal(eqn, known)
            case "get_barrier_semaphore":
                found.append(Buffer(None, "the barrier semaphore", "barrier"))
            case "dot_general":
                yield Multiplied(product_flops(eqn))
            case "axis_index":
                found.append(self._axis(eqn.params["axis_name"]))
            case "program_id":
                found.append(self._step[eqn.params["axis"]])
            case "num_programs":
                found.append(self.grid[eqn.params["axis"]])
            case "cond":
                yield from self._branch(eqn, inputs, found)
            case "scan":
                yield from self._scan(eqn, inputs, found)
            case "while":
                yield from self._while(eqn, inputs, found)
            case "run_scoped":
                yield from self._scope(eqn, inputs, found)
            case _ if name in _CALLS and len(inner := inner_jaxprs(eqn)) == 1:
                yield from self._jaxpr(inner[0], inputs, found)
            case _:
                self._demand_none(eqn, "in an operation whose copies are not counted")
                if not eqn.primitive.multiple_results:
                    found.append(computed(eqn, inputs))

    def _axis(self, name: Any) -> Number:
        """The chip's number along an axis, or along several, the last one counting fastest."""
        names, number = (name if isinstance(name, tuple) else (name,)), 0
        for one in names:
            if one in self.places:
                number = number * self.sizes[one] + self.places[one]
            elif one in self.named:
                axis = self.named.index(one)
                number = number * self.grid[axis] + self._step[axis]
            else:
                return None
        return number

    def _branch(self, eqn: core.JaxprEqn, inputs: list[Any], found: list[Any]) -> Iterator[Event]:
        branches, chosen = inner_jaxprs(eqn), inputs[0]
        if chosen is None:
            self._demand_none(eqn, "under a condition on what the kernel reads")
            return
        number = min(max(int(chosen), 0), len(branches) - 1)
        yield from self._jaxpr(branches[number], inputs[1:], found)

    def _scan(self, eqn: core.JaxprEqn, inputs: list[Any], found: list[Any]) -> Iterator[Event]:
        (turn,) = inner_jaxprs(eqn)
        fixed, count = loop_constants(eqn), loop_carried(eqn)
        carry = inputs[fixed : fixed + count]
        rows = len(turn.invars) - fixed - count
        times = int(eqn.params["length"])
        if not _matters(turn) and len(turn.eqns) * times > 1000:
            return
        for _ in range(times):
            results: list[Any] = []
            yield from self._jaxpr(turn, [*inputs[:fixed], *carry, *[None] * rows], results)
            carry = results[:count]
        found.extend([*carry, *[None] * (len(eqn.outvars) - count)])

    def _while(self, eqn: core.JaxprEqn, inputs: list[Any], found: list[Any]) -> Iterator[Event]:
        asked, turn = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
        first = eqn.params["cond_nconsts"]
        fixed = first + eqn.params["body_nconsts"]
        carry = inputs[fixed:]
        while True:
            answer: list[Any] = []
            yield from self._jaxpr(asked, [*inputs[:first], *carry], answer)
            if answer[0] is None:
                self._demand_none(eqn, "in a loop that ends by what the kernel reads")
                return
            if not answer[0]:
                break
            results: list[Any] = []
            yield from self._jaxpr(turn, [*inputs[first:fixed], *carry], results)
            carry = results
        found.extend(carry)

    def _scope(self, eqn: core.JaxprEqn, inputs: list[Any], found: list[Any]) -> Iterator[Event]:
        (inner,) = inner_jaxprs(eqn)
        names = [name if name.isidentifier() else _UNNAMED for name in names_of(inner)]
        known: dict[core.Var, Any] = {
            var: Buffer(None, name, id(var)) for var, name in zip(inner.invars, names, strict=True)
        }
        known.update(zip(inner.constvars, inputs, strict=True))
        yield from self._equations(inner, known)
        found.extend(value(atom, known) for atom in inner.outvars)

    def _copy(self, eqn: core.JaxprEqn, known: Mapping[core.Var, Any]) -> Started | Waited:
        source, target, counted, own, device = parts(eqn)
        at = semaphore(counted, known)
        if eqn.primitive.name == "dma_wait":
            return Waited(at, end_of(target, known).size)
        ends = end_of(source, known), end_of(target, known)
        if not is_remote(eqn):
            return Started(*ends, at, remote=False)
        to = self._named(device, known)
        here = tuple(self.places[name] for name in self.sizes)
        way = () if to is None else ways(here, to, self.sizes)
        return Started(*ends, at, True, way, to, None if own is None else semaphore(own, known))

    def _named(self, device: Any, known: Mapping[core.Var, Any]) -> Place | None:
        """The chip that a `device_id` names; None where it is not known."""
        return receiver(device, self.places, self.sizes, lambda one: number(one, known))

    def _signal(self, eqn: core.JaxprEqn, known: Mapping[core.Var, Any]) -> Signalled | Awaited:
        ref, transforms, count, *more = jax.tree.unflatten(eqn.params["args_tree"], eqn.invars)
        at, times = semaphore_at(ref, transforms, known), number(count, known)
        if times is None:
            raise Untold("how often a semaphore is signalled depends on what the kernel reads")
        if eqn.primitive.name == "semaphore_wait":
            return Awaited(at, int(times))
        device = more[0]
        to = None if device is None else self._named(device, known)
        return Signalled(at, int(times), device is not None, to)

    def _demand_none(self, eqn: core.JaxprEqn, why: str) -> None:
        """Raises Untold where copies are started within an equation that can't be followed."""
        asked = {"dma_start", *_SIGNALS} if self.signals else {"dma_start"}
        if any(asked & set(primitives(inner)) for inner in inner_jaxprs(eqn)):
            raise Untold(why)


def _matters(jaxpr: core.Jaxpr) -> bool:
    return any(name in (*_COPIES, *_SIGNALS, "dot_general") for name in primitives(jaxpr))


def copies_of_chips(
    kernel: core.Jaxpr, grid: Sequence[int], axes: Axes, named: Sequence[str] = ()
) -> Dmas:
    """What the chip of a mesh copies that sends most, in all steps of the grid.

    `named` are the grid's axes, by name, where they have names. Raises Untold where some copy
    depends on what the kernel reads.
    """
    sizes, budget = dict(axes), EquationBudget()
    each = [
        _tallied(
            DryRun(kernel, tuple(grid), dict(zip(sizes, place, strict=True)), sizes, tuple(named),
                   budget).events(),
            len(kernel.invars),
        )
        for place in itertools.product(*map(range, sizes.values()))
    ]  # fmt: skip
    most = max(each, key=lambda one: (carried(one.routes or ()), one.sent or 0, _elements(one)))
    return dataclasses.replace(most, covered=_least(copies.covered for copies in each))


def _elements(copies: Dmas) -> int:
    return sum(copy.times for copy in copies.known)


def _least(shares: Iterable[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def _tallied(events: Iterable[Event], operands: int) -> Dmas:
    """The copies of one chip. What it sends, another of the same kind sends to it."""
    ways, untold = Counter[Way](), False
    count, coming = Counter[tuple[int, bool, tuple[int, ...]]](), Counter[Semaphore]()
    sent = multiplied = meanwhile = 0
    for event in events:
        if isinstance(event, Multiplied):
            multiplied += event.operations
            meanwhile += event.operations * (+coming != Counter())
        elif isinstance(event, Started):
            count.update(_ends(event))
            if event.remote:
                sent += event.source.size
                untold |= not event.ways
                for way in event.ways:
                    ways[way] += event.source.size // len(event.ways)
                coming[event.semaphore] += event.source.size
        elif isinstance(event, Waited):
            coming[event.semaphore] -= event.size * (event.semaphore in coming)
    known = tuple(Dma(*what, times) for what, times in count.items())
    covered = meanwhile / multiplied if sent and multiplied else None
    routes = None if untold else tuple(Route(way, size) for way, size in ways.items() if way)
    return Dmas(known, ("",) * operands, sent, False, covered, routes)


def _ends(copy: Started) -> Iterable[tuple[int, bool, tuple[int, ...]]]:
    """Its ends that are operands: position, whether it is read, and how much of it."""
    for end, inward in ((copy.source, True), (copy.target, False)):
        if end.buffer.operand is not None:
            yield end.buffer.operand, inward, end.extent
        elif end.space in IN_HBM:
            raise Untold(NO_OPERAND)
