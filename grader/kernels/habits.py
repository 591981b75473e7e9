"""What a kernel does that is slow on a TPU, or often wrong: which advice fits it."""

from __future__ import annotations

import math
from typing import SupportsFloat

from jax import lax
from jax.extend import core

from grader.kernels.copies import ends, ref_of
from grader.kernels.jaxprs import array_struct, inner_jaxprs, inner_refs
from grader.model import Habit

LANES = 128
_SHAPED = ("broadcast_in_dim", "reshape", "transpose", "squeeze")
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")


def habits_of(kernel: core.Jaxpr) -> tuple[Habit, ...]:
    """The habits of a kernel's body, inner jaxprs included, each once."""
    found: dict[Habit, None] = {}
    _collect(kernel, found)
    return tuple(found)


def _collect(jaxpr: core.Jaxpr, found: dict[Habit, None]) -> None:
    columns: set[int] = set()  # ids of values that were reduced along the lanes
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "dot_general":
            found.update(dict.fromkeys(_of_product(eqn)))
        elif name in _REDUCTIONS and _along_lanes(eqn):
            found[Habit.LANE_REDUCTION] = None
            columns.add(id(eqn.outvars[0]))
        elif name == "transpose":
            found[Habit.TRANSPOSE] = None
        elif _chooses(eqn) and any(map(_is_near, eqn.invars)):
            found[Habit.NEAR_MASK] = None
        if name in _SHAPED and id(eqn.invars[0]) in columns:
            columns.add(id(eqn.outvars[0]))
            shape = array_struct(eqn.outvars[0]).shape
            if shape and shape[-1] == math.prod(shape) > 1:
                found[Habit.TURNED_COLUMN] = None
        for inner in inner_jaxprs(eqn):
            _collect(inner, found)


def _of_product(eqn: core.JaxprEqn) -> list[Habit]:
    (_, summed), _ = eqn.params["dimension_numbers"]
    left, right = (array_struct(var).shape for var in eqn.invars)
    terms = math.prod(right[axis] for axis in summed)
    columns = math.prod(right) // max(terms, 1)
    rows = math.prod(left) // max(terms, 1)
    found = [Habit.NARROW_PRODUCT] if min(terms, columns, rows) < LANES else []
    precision = eqn.params.get("precision")
    parts = precision if isinstance(precision, tuple) else (precision,)
    precise = any(part not in (None, lax.Precision.DEFAULT) for part in parts)
    if precise:
        return [*found, Habit.PRECISE_PRODUCT]
    wide = any(array_struct(var).dtype == "float32" for var in eqn.invars)
    return [*found, *([Habit.ROUNDED_PRODUCT] if wide else [])]


#: Numbers that serve as a mask: below what one computes with, and far above the lowest float32.
_LOWEST, _HIGHEST = -1e30, -10.0


def _chooses(eqn: core.JaxprEqn) -> bool:
    """Whether an equation is a select, or the function that jnp.where makes of it."""
    return eqn.primitive.name == "select_n" or eqn.params.get("name") == "_where"


def _is_near(atom: core.Var | core.Literal) -> bool:
    """Whether an operand is a number that stands for minus infinity and is far from it."""
    value = getattr(atom, "val", None)
    return isinstance(value, SupportsFloat) and _LOWEST < float(value) < _HIGHEST


def _along_lanes(eqn: core.JaxprEqn) -> bool:
    return len(array_struct(eqn.invars[0]).shape) - 1 in eqn.params.get("axes", ())


def never_awaited(kernel: core.Jaxpr) -> list[bool]:
    """For each input of a kernel's body: whether copies from or to it are started, and no copy
    that has to do with it, or with a semaphore of theirs, is ever waited for."""
    started: dict[int, set[int]] = {}
    awaited: set[int] = set()
    _follow(kernel, {id(var): id(var) for var in kernel.invars}, started, awaited)
    return [
        id(var) in started and not (started[id(var)] | {id(var)}) & awaited for var in kernel.invars
    ]


def _follow(
    jaxpr: core.Jaxpr, refs: dict[int, int], started: dict[int, set[int]], awaited: set[int]
) -> None:
    for eqn in jaxpr.eqns:
        touched = {refs.get(id(var), id(var)) for var in eqn.invars}
        if eqn.primitive.name == "dma_start":
            for end in map(ref_of, ends(eqn)):
                started.setdefault(refs.get(id(end), id(end)), set()).update(touched)
        elif eqn.primitive.name in ("dma_wait", "semaphore_wait"):
            awaited |= touched
        for inner in inner_jaxprs(eqn):
            known = {**{id(var): id(var) for var in inner.invars}, **inner_refs(eqn, inner, refs)}
            _follow(inner, {**refs, **known}, started, awaited)
