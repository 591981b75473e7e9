"""Arrays that XLA copies because of input_output_aliases.

A kernel may write a result in the place of an input if nobody needs that input any more: it isn't
read later, and the launch's caller gives it away by `donate_argnames` of jax.jit. Otherwise XLA
copies the input first. And jax wants a donated array's place to hold a result of its shape and
dtype, the first donated one for the first result: if a kernel has written that result elsewhere,
XLA copies it there afterwards. So it is with libtpu 0.0.42 and 0.0.50.1.

`output_aliases` finds the results that are an output of the last kernel, in the same order.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core

from pallascope.kernels.evaluator import Env, Evaluator
from pallascope.kernels.jaxprs import Shaped, called, expanded, inner_jaxprs, is_identity, sites
from pallascope.kernels.outside_kernels import is_bitcast, keeps_order
from pallascope.kernels.pallas_params import KERNELS, grid_mapping, is_pallas_call
from pallascope.model import CopyReason, XlaCopy

#: A kernel and the number of one of its outputs.
_Origin = tuple[core.JaxprEqn, int] | None


def output_aliases(
    closed: core.ClosedJaxpr, kernels: Sequence[core.JaxprEqn]
) -> tuple[tuple[int, int] | None, ...]:
    """For each result, the number of a kernel and of its output that it is, unchanged or reshaped.

    None if it is no output of one of these kernels.
    """
    numbers = {id(kernel): number for number, kernel in enumerate(kernels)}
    origins = _Origins().evaluate(closed.jaxpr, [None] * len(closed.jaxpr.invars))
    return tuple(
        (numbers[id(origin[0])], origin[1]) if origin and id(origin[0]) in numbers else None
        for origin in origins
    )


class _Origins(Evaluator):
    """A value is the kernel output whose elements it holds in the same order."""

    def constant(self, value: object) -> _Origin:
        return None

    def operation(self, eqn: core.JaxprEqn, inputs: list[_Origin], env: Env) -> Sequence[_Origin]:
        if is_pallas_call(eqn):
            return [(eqn, number) for number in range(len(eqn.outvars))]
        if (jaxpr := called(eqn)) is not None:
            return self.evaluate(jaxpr, inputs)
        one = len(eqn.outvars) == 1 and inputs and _same_order(eqn)
        same = is_identity(eqn) or one
        return inputs[: len(eqn.outvars)] if same else [None] * len(eqn.outvars)


class _Uses(_Origins):
    """The same, and which outputs of kernels an operation computes with."""

    def __init__(self) -> None:
        self.used = set[tuple[int, int]]()

    def operation(self, eqn: core.JaxprEqn, inputs: list[_Origin], env: Env) -> Sequence[_Origin]:
        made = super().operation(eqn, inputs, env)
        if called(eqn) is None:
            passed = [origin for origin in made if origin is not None]
            self.use(origin for origin in inputs if origin not in passed)
        return made

    def use(self, origins: Iterable[_Origin]) -> None:
        self.used.update((id(origin[0]), origin[1]) for origin in origins if origin)


def unused_outputs(
    closed: core.ClosedJaxpr, kernels: Sequence[core.JaxprEqn]
) -> tuple[tuple[int, ...], ...]:
    """For each kernel, the numbers of its outputs that nothing uses: they serve as scratch."""
    uses = _Uses()
    uses.use(uses.evaluate(closed.jaxpr, [None] * len(closed.jaxpr.invars)))
    return tuple(
        tuple(n for n in range(len(kernel.outvars)) if (id(kernel), n) not in uses.used)
        for kernel in kernels
    )


def _same_order(eqn: core.JaxprEqn) -> bool:
    """Whether an operation returns all elements of its input in their row-major order."""
    given, made = eqn.invars[0].aval, eqn.outvars[0].aval
    if not (isinstance(given, Shaped) and isinstance(made, Shaped)):
        return False
    same = math.prod(given.shape) == math.prod(made.shape)
    return same and keeps_order(eqn, tuple(given.shape))


Values = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """One equation; a loop or branch with this many `kernels` also is one step."""

    equation: core.JaxprEqn
    inputs: Values
    outputs: Values
    kernels: int


def alias_copies(closed: core.ClosedJaxpr) -> list[tuple[XlaCopy, ...]]:
    """For each kernel of a trace, in program order, XLA's copies before or after it.

    Kernels in loops and branches are unknown, and get no copies.
    """
    return _Reader(closed).copies()


class _Reader(Evaluator):
    """Lists the equations of a trace and of its calls, in order. A value is its number."""

    def __init__(self, closed: core.ClosedJaxpr) -> None:
        self._next = itertools.count()
        jaxpr = closed.jaxpr
        self._inputs = self._fresh(jaxpr.invars)
        self._donated = set[int]()
        self._steps: list[_Step] = []
        self._results: Values = tuple(self.evaluate(jaxpr, self._inputs))
        self._paired = self._pairs(jaxpr)
        self._place: dict[int, int] = {
            value: value for value in self._inputs
        }  # a value's array, by a number
        self._writer: dict[int, tuple[int, int]] = {}  # by result: its kernel and operand

    def copies(self) -> list[tuple[XlaCopy, ...]]:
        last = self._last_uses()
        found: list[list[XlaCopy]] = []
        for now, step in enumerate(self._steps):
            if not is_kernel(step.equation):
                found += [[] for _ in range(step.kernels)]
                same = is_bitcast(step.equation)
                self._settle(step.outputs, step.inputs[: len(step.outputs)] if same else [])
                continue
            found.append(list(self._kernel(step, len(found), now, last)))
        for kernel, copy in self._brought_back():
            found[kernel].append(copy)
        return list(map(tuple, found))

    def _fresh(self, of: Sequence[object]) -> Values:
        return tuple(next(self._next) for _ in of)

    def constant(self, value: object) -> int:
        return next(self._next)

    def operation(self, eqn: core.JaxprEqn, inputs: list[int], env: Env) -> Sequence[int]:
        if (jaxpr := called(eqn)) is not None:
            self._give_away(eqn, inputs)
            return self.evaluate(jaxpr, inputs)
        made = self._fresh(eqn.outvars)
        self._steps.append(_Step(eqn, tuple(inputs), made, _kernels(eqn)))
        return made

    def _give_away(self, call: core.JaxprEqn, given: Sequence[int]) -> None:
        """Records the launch's inputs that a jax.jit around all of it donates."""
        flags = call.params.get("donated_invars") or ()
        self._donated |= {value for value, flag in zip(given, flags, strict=False) if flag}
        self._donated &= set(self._inputs)

    def _pairs(self, jaxpr: core.Jaxpr) -> dict[int, int]:
        """Donated inputs, with the positions of the results that jax wants in their places."""
        waiting = defaultdict[Any, deque[int]](deque)
        for value, var in zip(self._inputs, jaxpr.invars, strict=True):
            if value in self._donated:
                waiting[_type(var)].append(value)
        return {
            waiting[_type(var)].popleft(): position
            for position, var in enumerate(jaxpr.outvars)
            if waiting[_type(var)]
        }

    def _last_uses(self) -> dict[int, int]:
        """By value, the number of the last step that reads it or a reshaped form of it."""
        last = dict.fromkeys(self._results, len(self._steps))
        for now, step in reversed(list(enumerate(self._steps))):
            forms = zip(step.inputs, step.outputs, strict=False)
            reshaped = dict(forms if is_bitcast(step.equation) else ())
            for value in step.inputs:
                until = last.get(reshaped.get(value, value), now)
                last[value] = max(last.get(value, 0), now, until)
        return last

    def _settle(self, values: Values, places: Sequence[int]) -> None:
        """Record the places of results: those of these values, or new ones."""
        for position, value in enumerate(values):
            there = places[position] if position < len(places) else value
            self._place[value] = self._place.get(there, there)

    def _kernel(
        self, step: _Step, number: int, now: int, last: Mapping[int, int]
    ) -> Iterator[XlaCopy]:
        first, count, aliases = _aliases(step.equation)
        self._settle(step.outputs, [])
        uses = Counter(step.inputs)
        for source, result in aliases.items():
            value = step.inputs[first + source]
            place = self._place.get(value, value)
            kept = place in self._inputs and place not in self._paired
            if last.get(value, now) > now or uses[value] > 1:
                yield XlaCopy(source, CopyReason.READ_LATER)
            elif kept:
                yield XlaCopy(source, CopyReason.KEPT)
            else:
                self._place[step.outputs[result]] = place
        for position, value in enumerate(step.outputs):
            self._writer[value] = number, count + position

    def _brought_back(self) -> Iterator[tuple[int, XlaCopy]]:
        """Results that kernels have written elsewhere than in the donated arrays they replace."""
        moved = dict[int, int]()
        for donated, position in self._paired.items():
            value = self._results[position]
            place = self._place.get(value, value)
            if value in self._writer and place != donated:
                kernel, operand = self._writer[value]
                moved[donated] = place
                yield kernel, XlaCopy(operand, CopyReason.ELSEWHERE)
                if _closes_a_ring(moved, donated):
                    yield kernel, XlaCopy(operand, CopyReason.EXCHANGED)


def is_kernel(eqn: core.JaxprEqn) -> bool:
    return eqn.primitive.name in KERNELS


def _closes_a_ring(moved: Mapping[int, int], start: int) -> bool:
    """Whether arrays change places in a ring, which needs one more place."""
    place, seen = moved[start], set[int]()
    while place in moved and place not in seen:
        if place == start:
            return True
        seen.add(place)
        place = moved[place]
    return place == start


def _kernels(eqn: core.JaxprEqn) -> int:
    """The number of kernels in an equation."""
    inside = [site.eqn for jaxpr in _opened(eqn) for site in sites(jaxpr, _opened)]
    return sum(map(is_kernel, [eqn, *inside]))


def _opened(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    return [] if is_kernel(eqn) else inner_jaxprs(eqn) or expanded(eqn)


def _aliases(kernel: core.JaxprEqn) -> tuple[int, int, dict[int, int]]:
    """The operands' first index among a kernel's inputs, their number, and {operand: result}."""
    if not is_pallas_call(kernel):
        return 0, len(kernel.invars), {}
    first = sum(not isinstance(size, int) for size in grid_mapping(kernel).grid)
    return first, len(kernel.invars) - first, dict(kernel.params.get("input_output_aliases") or ())


def _type(var: Any) -> tuple[Any, ...]:
    return getattr(var.aval, "shape", None), str(getattr(var.aval, "dtype", None))
