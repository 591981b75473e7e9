"""How often a launch runs each kernel: loops, dead and repeated kernels.

XLA removes a kernel whose results nothing uses, even in the body of a loop. Of two kernels that do
the same to the same arrays it runs only one, unless they have side effects: so it is with libtpu
0.0.51 and 0.0.50.1. It moves no kernel out of a loop. To find repeated kernels, every value gets a
number; two operations that do the same to the same numbers give the same ones.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from typing import Any

from jax.extend import core

from pallascope.kernels.evaluator import Env, Evaluator
from pallascope.kernels.jaxprs import (
    Atom,
    called,
    has_effects,
    inner_jaxprs,
    loop_carried,
    loop_constants,
    repetitions,
    turns,
)
from pallascope.kernels.pallas_params import KERNELS
from pallascope.model import RunCount

Numbers = tuple[int, ...]


def repeated(closed: core.ClosedJaxpr) -> list[int]:
    """For each kernel of a trace, in program order, the number of the first that does the same."""
    reader = _RepeatReader()
    reader.evaluate(closed.jaxpr, reader.fresh(closed.jaxpr.invars))
    return reader.found


class _RepeatReader(Evaluator):
    """Numbers the values of a trace. Operations in the body of a loop or branch count only there.

    A value is its number.
    """

    def __init__(self) -> None:
        self.found: list[int] = []
        self._next = itertools.count()
        self._literals: dict[str, int] = {}
        self._seen: dict[Any, Any] = {}

    def fresh(self, of: Sequence[object]) -> Numbers:
        """New, unused numbers."""
        return tuple(next(self._next) for _ in of)

    def constant(self, value: object) -> int:
        return next(self._next)

    def value(self, atom: Atom, env: Env) -> int:
        if isinstance(atom, core.Literal):
            return self._literals.setdefault(f"{atom.aval} {atom.val}", next(self._next))
        return env.setdefault(atom, next(self._next))

    def operation(self, eqn: core.JaxprEqn, inputs: list[int], env: Env) -> Sequence[int]:
        name, inner = eqn.primitive.name, inner_jaxprs(eqn)
        if name in KERNELS:
            return self._kernel(eqn, tuple(inputs))
        if (jaxpr := called(eqn)) is not None:
            return self.evaluate(jaxpr, inputs)
        for jaxpr in inner:
            around, self._seen = self._seen, {}
            self.evaluate(jaxpr, self.fresh(jaxpr.invars))
            self._seen = around
        if inner or eqn.effects:
            return self.fresh(eqn.outvars)
        key = (name, tuple(inputs), str(eqn.params))
        return self._seen.setdefault(key, self.fresh(eqn.outvars))

    def _kernel(self, eqn: core.JaxprEqn, inputs: Numbers) -> Numbers:
        earlier = self._seen.setdefault((eqn.primitive.name, inputs), [])
        pure = not eqn.effects and not asks_to_be_kept(eqn)
        for other, first, results in earlier if pure else ():
            if str(other.params) == str(eqn.params):  # long, so only if everything else is equal
                self.found.append(first)
                return results
        results, number = self.fresh(eqn.outvars), len(self.found)
        if pure:
            earlier.append((eqn, number, results))
        self.found.append(number)
        return results


def asks_to_be_kept(kernel: core.JaxprEqn) -> str:
    """A kernel's parameter for side effects, which isn't an effect; "" if it has none."""
    word = getattr(kernel.params.get("compiler_params"), "has_side_effects", False)
    if isinstance(word, bool):
        return "side_effecting" if word else ""
    told = str(getattr(word, "value", word))
    return "" if told == "pure" else told


def run_counts(closed: core.ClosedJaxpr) -> list[RunCount]:
    """For each kernel of a trace, in program order, how often it runs."""
    found: list[RunCount] = []
    done = set[int]()
    kernels = equations_run(closed, KERNELS)
    for (_, runs), first in zip(kernels, repeated(closed), strict=True):
        found.append(dataclasses.replace(runs, times=0) if first in done else runs)
        if runs.times:
            done.add(first)
    return found


def equations_run(
    closed: core.ClosedJaxpr, names: Collection[str]
) -> list[tuple[core.JaxprEqn, RunCount]]:
    """The equations of a trace with these primitives, in program order, and how often each runs.

    Leaves out the bodies of kernels.
    """
    reader = _Reader(names)
    reader.read(closed.jaxpr, [True] * len(closed.jaxpr.outvars), RunCount())
    return reader.found[::-1]


class _Reader:
    """Walks a trace from its end to its beginning: an equation only runs if it is used later."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.found: list[tuple[core.JaxprEqn, RunCount]] = []
        self._names = names

    def read(self, jaxpr: core.Jaxpr, used: Sequence[bool], runs: RunCount) -> list[bool]:
        """The inputs of a jaxpr that are used if these of its outputs are."""
        live = {id(var) for var, is_used in zip(jaxpr.outvars, used, strict=True) if is_used}
        for eqn in reversed(jaxpr.eqns):
            inputs = self._equation(eqn, [id(var) in live for var in eqn.outvars], runs)
            live.update(id(v) for v, is_used in zip(eqn.invars, inputs, strict=True) if is_used)
        return [id(var) in live for var in jaxpr.invars]

    def _equation(self, eqn: core.JaxprEqn, used: list[bool], runs: RunCount) -> list[bool]:
        kept = has_effects(eqn) or asks_to_be_kept(eqn) == "side_effecting"
        if kept:
            used = [True] * len(used)
        needed = kept or any(used)
        if not needed:
            runs = dataclasses.replace(runs, times=0)
        if eqn.primitive.name in self._names:
            self.found.append((eqn, runs))
        if eqn.primitive.name in KERNELS:
            return [needed] * len(eqn.invars)
        match eqn.primitive.name:
            case "scan":
                return self._scan(eqn, used, runs)
            case "while":
                return self._while(eqn, used, runs)
            case "cond":
                return self._cond(eqn, used, runs)
        return self._call(eqn, used, needed, runs)

    def _call(
        self, eqn: core.JaxprEqn, used: list[bool], needed: bool, runs: RunCount
    ) -> list[bool]:
        """An operation that runs the jaxprs within it once, if it has any."""
        inputs = [needed] * len(eqn.invars)
        for inner in reversed(inner_jaxprs(eqn)):
            same = len(inner.outvars) == len(used)
            within = self.read(inner, used if same else [needed] * len(inner.outvars), runs)
            if len(inner_jaxprs(eqn)) == 1 and same and len(within) == len(inputs):
                inputs = within
        return inputs

    def _scan(self, eqn: core.JaxprEqn, used: list[bool], runs: RunCount) -> list[bool]:
        (body,) = inner_jaxprs(eqn)
        fixed, carry = loop_constants(eqn), loop_carried(eqn)
        times = dataclasses.replace(runs, times=runs.times * repetitions(eqn))
        return self._loop(body, used, range(fixed, fixed + carry), times)

    def _while(self, eqn: core.JaxprEqn, used: list[bool], runs: RunCount) -> list[bool]:
        stop, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
        before, fixed = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        known = turns(eqn)
        if known is None:
            each = dataclasses.replace(runs, untold=True)
        else:
            each = dataclasses.replace(runs, times=runs.times * known)
        asked = _Reader().read(stop, [True], each)
        kept = [now or by for now, by in zip(used, asked[before:], strict=True)]
        within = self._loop(body, kept, range(fixed, fixed + len(used)), each)
        self.read(stop, [True], each)
        carry = [now or by for now, by in zip(kept, within[fixed:], strict=True)]
        return [*asked[:before], *within[:fixed], *carry]

    def _loop(self, body: core.Jaxpr, used: list[bool], carry: range, runs: RunCount) -> list[bool]:
        """A body whose first results are these of its inputs in the next iteration."""
        used = list(used)
        while True:
            within = _Reader().read(body, used, runs)
            again = [within[at] for at in carry]
            more = [now or later for now, later in zip(used, again, strict=False)]
            if more == used[: len(more)]:
                return self.read(body, used, runs)
            used[: len(more)] = more

    def _cond(self, eqn: core.JaxprEqn, used: list[bool], runs: RunCount) -> list[bool]:
        """XLA drops the branches of a condition that is known before the run."""
        branches = [branch.jaxpr for branch in eqn.params["branches"]]
        index = eqn.invars[0]
        chosen = None
        if isinstance(index, core.Literal):
            chosen = min(max(int(index.val), 0), len(branches) - 1)
        inputs = [False] * (len(eqn.invars) - 1)
        for number in reversed(range(len(branches))):
            taken = dataclasses.replace(runs, conditional=True) if chosen is None else runs
            if chosen not in (None, number):
                taken = dataclasses.replace(runs, times=0)
            within = self.read(branches[number], used, taken)
            inputs = [before or now for before, now in zip(inputs, within, strict=True)]
        return [True, *inputs]
