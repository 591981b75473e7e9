"""Reads and rewrites jaxprs: all equations with their places, calls, loops, Refs.

`sites` is the loop over all equations of a jaxpr and of those inside it; `equations` and
`primitives` are the same with less about each. `Rewriter` replaces equations wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jax.core import AbstractValue
from jax.extend import core

from pallascope.kernels.pallas_params import KERNELS

Atom = core.Var | core.Literal


@runtime_checkable
class Shaped(Protocol):
    """An abstract value with a shape and a dtype: an array, or a Ref to one; not a token."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...


def array_struct(atom: Atom) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array in a jaxpr, or of a Ref's contents."""
    assert isinstance(atom.aval, Shaped), atom.aval
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)


def discharged(closed: core.ClosedJaxpr, which: bool | Sequence[bool] = True) -> core.ClosedJaxpr:
    """A jaxpr with values instead of Refs: it returns the new contents of its Ref arguments.

    `which` says for each argument whether it becomes a value.
    """
    from pallascope.kernels.jax_internals import discharge_state

    return discharge_state(closed, should_discharge=which)


def inner_jaxprs(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    """The jaxprs among an equation's parameters: branches, loop bodies, called functions."""
    return list(core.jaxprs_in_params(eqn.params))


def closed_jaxprs(eqn: core.JaxprEqn) -> Iterator[core.ClosedJaxpr]:
    """The jaxprs with constants among an equation's parameters."""
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, core.ClosedJaxpr):
                yield each


def expanded(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    """The jaxpr of an operation of the newest jax that isn't in a parameter: jnp.searchsorted and
    others are one operation until they are lowered. Empty for all other equations."""
    expand = getattr(eqn.primitive, "to_lojax", None)
    if eqn.primitive.name != "call_hi_primitive" or expand is None:
        return []
    arrays = map(array_struct, eqn.invars)
    return [jax.make_jaxpr(lambda *args: expand(*args, **eqn.params))(*arrays).jaxpr]


#: Equations that only call a jaxpr with their inputs, and the parameter that holds it.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "eval_jaxpr": "call_jaxpr",  # since JAX 0.12, of a loop with a Ref
}


def called(eqn: core.JaxprEqn) -> core.Jaxpr | core.ClosedJaxpr | None:
    """The jaxpr that an equation calls with its own inputs, once; None for all other equations."""
    return eqn.params.get(CALLS.get(eqn.primitive.name, ""))


def passed(eqn: core.JaxprEqn, inner: core.Jaxpr) -> Iterable[tuple[core.Var, Atom]]:
    """The inputs of an inner jaxpr, each with the equation's input that is passed to it.

    A cond's first operand chooses the branch; the rest line up with each branch's. The body of a
    run_scoped takes its buffers as inputs, and the equation's inputs as constants.
    """
    inputs = inner.constvars if eqn.primitive.name == "run_scoped" else inner.invars
    return zip(inputs, eqn.invars[len(eqn.invars) - len(inputs) :], strict=False)


class Site(NamedTuple):
    """An equation and its place: in `jaxpr`, which the equations of `path` contain.

    `path` begins with the outermost equation. The scans among them run `eqn` this many `times`.
    """

    eqn: core.JaxprEqn
    jaxpr: core.Jaxpr
    path: tuple[core.JaxprEqn, ...]
    times: int
    roots: Mapping[int, Atom]

    def root(self, atom: Atom) -> Atom:
        """The variable, of this jaxpr or of one around it, that `atom` was passed down from."""
        return self.roots.get(id(atom), atom)


def sites(
    jaxpr: core.Jaxpr, inner: Callable[[core.JaxprEqn], Sequence[core.Jaxpr]] = inner_jaxprs
) -> Iterator[Site]:
    """All equations of a jaxpr in program order, each before those of the jaxprs inside it.

    `inner` chooses the jaxprs of an equation that are read.
    """
    return _sites(jaxpr, inner, (), 1, {})


def _sites(
    jaxpr: core.Jaxpr,
    inner: Callable[[core.JaxprEqn], Sequence[core.Jaxpr]],
    path: tuple[core.JaxprEqn, ...],
    times: int,
    roots: Mapping[int, Atom],
) -> Iterator[Site]:
    for eqn in jaxpr.eqns:
        site = Site(eqn, jaxpr, path, times, roots)
        yield site
        for each in inner(eqn):
            known = {id(var): site.root(atom) for var, atom in passed(eqn, each)}
            yield from _sites(each, inner, (*path, eqn), times * repetitions(eqn), known)


def equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All equations of a jaxpr and of those inside it, in program order."""
    return (site.eqn for site in sites(jaxpr))


def primitives(jaxpr: core.Jaxpr) -> Iterator[str]:
    """The names of all primitives of a jaxpr, inner ones included, in program order."""
    return (eqn.primitive.name for eqn in equations(jaxpr))


def inner_except_kernels(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    """For `sites`: the jaxprs inside an equation, without the bodies of kernels."""
    return [] if eqn.primitive.name in KERNELS else inner_jaxprs(eqn)


def first_use(jaxpr: core.Jaxpr, var: core.Var) -> core.JaxprEqn | None:
    """The first equation of a jaxpr that takes a variable."""
    return next((eqn for eqn in jaxpr.eqns if any(atom is var for atom in eqn.invars)), None)


def used(jaxpr: core.Jaxpr) -> set[int]:
    """The ids of the variables that a jaxpr's equations take or that it returns."""
    taken = {id(atom) for eqn in jaxpr.eqns for atom in eqn.invars}
    return taken | set(map(id, jaxpr.outvars))


def is_scalar(atom: Atom) -> bool:
    """Whether an input of a kernel is a number, not a Ref: `pl.kernel` may close over numbers."""
    return not hasattr(atom.aval, "inner_aval") and getattr(atom.aval, "shape", None) == ()


#: The names of memory spaces of Refs that stay in HBM.
IN_HBM = ("any", "hbm")


def memory_space(aval: AbstractValue) -> str:
    """The declared memory space of a Ref; "default" if none is named."""
    space = getattr(aval, "memory_space", None)
    return str(getattr(space, "value", space) or "default")


def has_effects(eqn: core.JaxprEqn) -> bool:
    """Whether an equation has effects for XLA; using an axis of a mesh isn't one."""
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects)


#: The turns of a loop that depends on data.
SOME_TURNS = 8
_LOOPS = ("scan", "while")


def most_of(
    jaxpr: core.Jaxpr, cost: Callable[[core.JaxprEqn, bool], float], in_loop: bool = False
) -> float:
    """The most that one run of a jaxpr costs: of a condition's branches, the dearest counts.

    `cost` takes an equation without the jaxprs inside it, and whether a loop repeats it.
    """
    total = 0.0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        turns = eqn.params["length"] if name == "scan" else SOME_TURNS if name == "while" else 1
        parts = [most_of(inner, cost, in_loop or name in _LOOPS) for inner in inner_jaxprs(eqn)]
        together = max if name == "cond" and parts else sum
        total += cost(eqn, in_loop) + turns * together(parts)
    return total


def changed_inside(eqn: core.JaxprEqn, change: Callable[[core.Jaxpr], core.Jaxpr]) -> core.JaxprEqn:
    """The equation with other jaxprs in its parameters; the equation itself if it has none."""

    def changed(param: Any) -> Any:
        if isinstance(param, core.ClosedJaxpr):
            return param.replace(jaxpr=change(param.jaxpr))
        if isinstance(param, core.Jaxpr):
            return change(param)
        return tuple(map(changed, param)) if type(param) is tuple else param

    if not inner_jaxprs(eqn):
        return eqn
    return eqn.replace(params={name: changed(value) for name, value in eqn.params.items()})


def rewritten(
    jaxpr: core.Jaxpr,
    replacement: Callable[[core.JaxprEqn, Mapping[int, core.JaxprEqn]], Sequence[core.JaxprEqn]],
) -> core.Jaxpr:
    """A jaxpr with others in place of its equations.

    `replacement` takes an equation, and for the id of each variable the equation that computes it.
    """
    makers = {id(var): eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    return jaxpr.replace(eqns=[new for eqn in jaxpr.eqns for new in replacement(eqn, makers)])


def loop_constants(scan: core.JaxprEqn) -> int:
    """The number of a scan's inputs that are the same in every iteration; they come first."""
    return _counts(scan)[0]


def loop_carried(scan: core.JaxprEqn) -> int:
    """The number of a scan's inputs, after the constants, that the previous iteration returns."""
    return _counts(scan)[1]


def unchanged(body: core.Jaxpr, fixed: int, carried: int) -> list[bool]:
    """For each array that a loop carries, after `fixed` constants: whether its body returns it as
    it is."""
    carry = body.invars[fixed : fixed + carried]
    return [new is old for new, old in zip(body.outvars[:carried], carry, strict=True)]


def _counts(scan: core.JaxprEqn) -> tuple[int, int]:
    match scan.params:
        case {"num_consts": int(fixed), "num_carry": int(carry)}:  # before jax 0.12
            return fixed, carry
    try:
        fixed, carry, _ = scan.params["ft_in"].unpack()
        return len(list(fixed)), len(list(carry))
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0, 0  # moved again; loops are unknown then


def repetitions(eqn: core.JaxprEqn) -> int:
    """How often an equation runs the jaxprs inside it: a scan's length, otherwise 1."""
    return int(eqn.params["length"]) if eqn.primitive.name == "scan" else 1


def turns(loop: core.JaxprEqn) -> int | None:
    """How often the body of a `while` runs; None unless it counts by ones to a known bound.

    `lax.fori_loop` has this form if its bounds are arrays: a count, the bound, and the rest.
    """
    stop, body = loop.params["cond_jaxpr"].jaxpr, loop.params["body_jaxpr"].jaxpr
    fixed, first = loop.params["body_nconsts"], loop.params["cond_nconsts"]
    if len(stop.eqns) != 1 or stop.eqns[0].primitive.name != "lt" or first:
        return None
    (asked,) = stop.eqns
    if stop.outvars != asked.outvars or not all(var in stop.invars for var in asked.invars):
        return None
    count, bound = (stop.invars.index(var) for var in asked.invars)
    carry = body.invars[fixed:]
    if body.outvars[bound] is not carry[bound] or not _one_more(body, count, carry[count]):
        return None
    start, end = (loop.invars[fixed + position] for position in (count, bound))
    if not (isinstance(start, core.Literal) and isinstance(end, core.Literal)):
        return None
    return max(int(end.val) - int(start.val), 0)


def _one_more(body: core.Jaxpr, position: int, than: core.Var) -> bool:
    """Whether a result of a body is one of its inputs, plus 1."""
    made = next((eqn for eqn in body.eqns if body.outvars[position] in eqn.outvars), None)
    if made is None or made.primitive.name != "add":
        return False
    by = made.invars[1]
    return made.invars[0] is than and isinstance(by, core.Literal) and by.val == 1


class Rewriter:
    """Rewrites the equations of a jaxpr and of those inside it. A shared jaxpr stays shared."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}  # with each key, so that its id stays unique

    def equation(self, eqn: core.JaxprEqn) -> Sequence[core.JaxprEqn]:
        """The equations that replace one."""
        raise NotImplementedError

    def rebuilt(self, jaxpr: Any, eqns: list[core.JaxprEqn]) -> Any:
        """A jaxpr with other equations."""
        raise NotImplementedError

    def __call__(self, jaxpr: Any) -> Any:
        """A jaxpr after the change; the same object if nothing in it changes."""
        if (known := self._done.get(id(jaxpr))) is None:
            eqns = [new for eqn in jaxpr.eqns for new in self.equation(eqn)]
            known = self._done[id(jaxpr)] = jaxpr, self.rebuilt(jaxpr, eqns)
        return known[1]

    def params(self, eqn: core.JaxprEqn) -> dict[str, Any]:
        """An equation's parameters, with the jaxprs in them after the change."""
        return {name: self.value(value) for name, value in eqn.params.items()}

    def value(self, value: Any) -> Any:
        """A parameter after the change: a jaxpr, closed or not, or several."""
        if isinstance(value, core.Jaxpr):  # closed or not, from jax 0.12 on
            return self(value)
        if isinstance(value, core.ClosedJaxpr):
            jaxpr = self(value.jaxpr)
            return value if jaxpr is value.jaxpr else core.ClosedJaxpr(jaxpr, value.consts)
        if type(value) in (tuple, list):
            members = [self.value(member) for member in value]
            same = all(new is old for new, old in zip(members, value, strict=True))
            return value if same else type(value)(members)
        return value


#: Operations that return their operands unchanged.
_IDENTITIES = ("copy", "copy_p", "device_put", "name", "optimization_barrier", "stop_gradient")
#: Operations that return their operand if the result has its shape and dtype.
_OFTEN_IDENTITIES = (
    *("concatenate", "convert_element_type", "dynamic_slice", "sharding_constraint", "split"),
    "tile",
)


def is_identity(eqn: core.JaxprEqn) -> bool:
    """Whether XLA replaces the results of an operation by its first operands."""
    name = eqn.primitive.name
    if name in _IDENTITIES:
        return True
    arrays: list[Any] = [var.aval for var in (*eqn.invars[:1], *eqn.outvars)]
    if name not in _OFTEN_IDENTITIES or len(arrays) != 2:
        return False
    given, made = arrays
    return given.shape == made.shape and given.dtype == made.dtype
