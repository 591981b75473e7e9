"""How often a launch runs each of its kernels: loops around them, and what XLA leaves out.

XLA removes a kernel whose results nothing uses, also in the body of a loop, and runs only one of
two that do the same to the same arrays, unless they have side effects: so it is with libtpu 0.0.51
and 0.0.50.1. It moves no kernel out of a loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from jax.extend import core

from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.loops import carried, loop_constants, turns
from grader.kernels.pallas_params import KERNELS
from grader.kernels.repeated import asks_to_be_kept, repeated
from grader.model import Runs


def runs_of(closed: core.ClosedJaxpr) -> list[Runs]:
    """For each kernel of a trace, in program order, how often it runs."""
    found: list[Runs] = []
    done = set[int]()
    kernels = equations_run(closed, KERNELS)
    for (_, runs), first in zip(kernels, repeated(closed), strict=True):
        found.append(dataclasses.replace(runs, times=0) if first in done else runs)
        if runs.times:
            done.add(first)
    return found


def equations_run(
    closed: core.ClosedJaxpr, names: Collection[str]
) -> list[tuple[core.JaxprEqn, Runs]]:
    """The equations of a trace with these primitives, in program order, and how often each runs.

    Those in the bodies of kernels are not among them.
    """
    reader = _Reader(names)
    reader.read(closed.jaxpr, [True] * len(closed.jaxpr.outvars), Runs())
    return reader.found[::-1]


class _Reader:
    """Walks a trace from its end to its beginning: only what is used later on is run."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.found: list[tuple[core.JaxprEqn, Runs]] = []
        self._names = names

    def read(self, jaxpr: core.Jaxpr, used: Sequence[bool], runs: Runs) -> list[bool]:
        """Which inputs of a jaxpr are used where these of its outputs are."""
        live = {id(var) for var, is_used in zip(jaxpr.outvars, used, strict=True) if is_used}
        for eqn in reversed(jaxpr.eqns):
            inputs = self._equation(eqn, [id(var) in live for var in eqn.outvars], runs)
            live.update(id(v) for v, is_used in zip(eqn.invars, inputs, strict=True) if is_used)
        return [id(var) in live for var in jaxpr.invars]

    def _equation(self, eqn: core.JaxprEqn, used: list[bool], runs: Runs) -> list[bool]:
        has_effects = _has_effects(eqn) or asks_to_be_kept(eqn) == "side_effecting"
        if has_effects:
            used = [True] * len(used)
        needed = has_effects or any(used)
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

    def _call(self, eqn: core.JaxprEqn, used: list[bool], needed: bool, runs: Runs) -> list[bool]:
        """An operation that runs the jaxprs within it once, if it has any."""
        inputs = [needed] * len(eqn.invars)
        for inner in reversed(inner_jaxprs(eqn)):
            same = len(inner.outvars) == len(used)
            within = self.read(inner, used if same else [needed] * len(inner.outvars), runs)
            if len(inner_jaxprs(eqn)) == 1 and same and len(within) == len(inputs):
                inputs = within
        return inputs

    def _scan(self, eqn: core.JaxprEqn, used: list[bool], runs: Runs) -> list[bool]:
        (body,) = inner_jaxprs(eqn)
        fixed, carry = loop_constants(eqn), carried(eqn)
        times = dataclasses.replace(runs, times=runs.times * int(eqn.params["length"]))
        return self._loop(body, used, range(fixed, fixed + carry), times)

    def _while(self, eqn: core.JaxprEqn, used: list[bool], runs: Runs) -> list[bool]:
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

    def _loop(self, body: core.Jaxpr, used: list[bool], carry: range, runs: Runs) -> list[bool]:
        """A body whose first results come in again, as these of its inputs, on the next turn."""
        used = list(used)
        while True:
            within = _Reader().read(body, used, runs)
            again = [within[at] for at in carry]
            more = [now or later for now, later in zip(used, again, strict=False)]
            if more == used[: len(more)]:
                return self.read(body, used, runs)
            used[: len(more)] = more

    def _cond(self, eqn: core.JaxprEqn, used: list[bool], runs: Runs) -> list[bool]:
        """XLA drops the branches of a choice that is made before the run."""
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


def _has_effects(eqn: core.JaxprEqn) -> bool:
    """Whether an operation does more than give its results.

    That one goes over an axis of the mesh is an effect to jax, and none to XLA.
    """
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects)
