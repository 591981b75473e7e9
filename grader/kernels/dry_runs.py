"""A kernel's body without its data: which copies it starts, and what it multiplies meanwhile.

Most conditions and loops of a kernel depend on nothing but the grid step and the chip's own number
in the mesh, also those that `emit_pipeline` keeps its books with. So the scalar core's part of a
body can be run by itself, for each chip, and copies counted that a trace alone can't count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend import core

from grader.kernels.copies import UNTOLD_SIZE, extent, is_remote, parts, ref_of
from grader.kernels.dry_events import (
    Buffer,
    End,
    Event,
    Multiplied,
    Semaphore,
    Started,
    Waited,
)
from grader.kernels.flops import product_flops
from grader.kernels.jaxprs import Atom, array_struct, inner_jaxprs, memory_space, primitives
from grader.kernels.loops import carried, loop_constants
from grader.kernels.routes import Way, receiver, ways
from grader.kernels.scalars import Number, computed

#: So many equations of all steps and chips together; what takes more is not run.
MOST_EQUATIONS = 3_000_000

_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "remat2", "checkpoint")
_COPIES = ("dma_start", "dma_wait")


class Untold(ValueError):
    """What a copy or a branch depends on is known only at run time; says so in words."""


@dataclass(slots=True)
class Budget:
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
    `named` the grid's axes that have names.
    """

    kernel: core.Jaxpr
    grid: tuple[int, ...]
    places: Mapping[str, int]
    sizes: Mapping[str, int]
    named: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)
    _step: tuple[int, ...] = ()

    def events(self) -> Iterator[Event]:
        """What happens, in order. Raises Untold."""
        operands = [
            Buffer(at) if hasattr(var.aval, "inner_aval") else None
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
        results.extend(_value(atom, known) for atom in jaxpr.outvars)

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
        inputs = [_value(atom, known) for atom in eqn.invars]
        match name:
            case "dma_start" | "dma_wait":
                yield self._copy(eqn, known)
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
                _demand_none(eqn, "in an operation whose copies are not counted")
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
            _demand_none(eqn, "under a condition on what the kernel reads")
            return
        number = min(max(int(chosen), 0), len(branches) - 1)
        yield from self._jaxpr(branches[number], inputs[1:], found)

    def _scan(self, eqn: core.JaxprEqn, inputs: list[Any], found: list[Any]) -> Iterator[Event]:
        (turn,) = inner_jaxprs(eqn)
        fixed, count = loop_constants(eqn), carried(eqn)
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
                _demand_none(eqn, "in a loop that ends by what the kernel reads")
                return
            if not answer[0]:
                break
            results: list[Any] = []
            yield from self._jaxpr(turn, [*inputs[first:fixed], *carry], results)
            carry = results
        found.extend(carry)

    def _scope(self, eqn: core.JaxprEqn, inputs: list[Any], found: list[Any]) -> Iterator[Event]:
        (inner,) = inner_jaxprs(eqn)
        known: dict[core.Var, Any] = {var: Buffer() for var in inner.invars}
        known.update(zip(inner.constvars, inputs, strict=True))
        yield from self._equations(inner, known)
        found.extend(_value(atom, known) for atom in inner.outvars)

    def _copy(self, eqn: core.JaxprEqn, known: Mapping[core.Var, Any]) -> Started | Waited:
        source, target, semaphore, *_, device = parts(eqn)
        at = _semaphore(semaphore, known)
        if eqn.primitive.name == "dma_wait":
            return Waited(at, _end(target, known).size)
        ends = _end(source, known), _end(target, known)
        return Started(*ends, at, is_remote(eqn), self._ways(device, known))

    def _ways(self, device: Any, known: Mapping[core.Var, Any]) -> tuple[Way, ...]:
        """The ways to the chip that a copy names; () within a chip, and where it is not known."""
        if device is None:
            return ()
        there = receiver(device, self.places, self.sizes, lambda one: _number(one, known))
        here = tuple(self.places[name] for name in self.sizes)
        return () if there is None else ways(here, there, self.sizes)


def _value(atom: Atom, known: Mapping[core.Var, Any]) -> Any:
    """A number, a Buffer, or None for all else."""
    if isinstance(atom, core.Var):
        return known.get(atom)
    value = atom.val
    if getattr(value, "shape", ()) != ():
        return None
    return value.item() if hasattr(value, "item") else value


def _end(end: Any, known: Mapping[core.Var, Any]) -> End:
    ref = ref_of(end)
    buffer, sizes = _value(ref, known), extent(end)
    if not isinstance(buffer, Buffer) or sizes is None:
        raise Untold(UNTOLD_SIZE)
    size = math.prod(sizes) * array_struct(ref).dtype.itemsize
    return End(buffer, sizes, memory_space(ref.aval), size)


def _semaphore(end: Any, known: Mapping[core.Var, Any]) -> Semaphore:
    buffer = _value(ref_of(end), known)
    assert isinstance(buffer, Buffer), end
    indices = (
        index for one in getattr(end, "transforms", ()) for index in getattr(one, "indices", ())
    )
    return buffer, tuple(_number(index, known) for index in indices)


def _number(index: Any, known: Mapping[core.Var, Any]) -> Number:
    if isinstance(index, (core.Var, core.Literal)):
        return _value(index, known)
    return int(index) if getattr(index, "shape", None) == () or isinstance(index, int) else None


def _matters(jaxpr: core.Jaxpr) -> bool:
    return any(name in (*_COPIES, "dot_general") for name in primitives(jaxpr))


def _demand_none(eqn: core.JaxprEqn, why: str) -> None:
    """Raises Untold where copies are started within an equation that can't be followed."""
    if any("dma_start" in primitives(inner) for inner in inner_jaxprs(eqn)):
        raise Untold(why)
