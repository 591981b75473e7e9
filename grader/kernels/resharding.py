"""Arrays that two `shard_map`s of a launch cut in different ways: XLA moves them in between.

An input of the launch lies as the first `shard_map` that takes it wants it. What is computed from
an array element by element lies as the array does; of all else nothing is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core
from jax.sharding import PartitionSpec

from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.sharding import SHARD_MAP
from grader.model import Axes

_CONSTRAINT = "sharding_constraint"
#: Operations whose elements come from elsewhere, also where the shape stays.
_MIXED = ("transpose", "dot_general", "reshape")

#: For each dimension of an array, the axes of the mesh that cut it, the outermost first.
Cut = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Resharded:
    """An array that an equation wants cut in another way than it is.

    `axes` are those of the mesh that lie otherwise then; `sent` are the bytes that one device gets
    from others, and so what each sends on average, if each gets what it lacks from who has it.
    """

    eqn: core.JaxprEqn
    array: Any  # an abstract value
    axes: tuple[str, ...]
    sent: int


def resharded(closed: core.ClosedJaxpr, axes: Axes) -> list[Resharded]:
    """The arrays of a launch for a mesh of these axes that have to move, in program order."""
    reader = _Reader(dict(axes))
    reader.read(closed.jaxpr, [None] * len(closed.jaxpr.invars))
    return reader.found


class _Reader:
    """Walks the outside of a launch's `shard_map`s, and knows how its arrays are cut."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.found: list[Resharded] = []
        self._sizes = sizes

    def read(self, jaxpr: core.Jaxpr, given: Sequence[Cut | None]) -> list[Cut | None]:
        """How the results of a jaxpr are cut, given how its inputs are; None where unknown."""
        cuts = {id(v): cut for v, cut in zip(jaxpr.invars, given, strict=True) if cut is not None}
        for eqn in jaxpr.eqns:
            results = self._equation(eqn, cuts)
            found = zip(eqn.outvars, results, strict=True)
            cuts.update((id(var), cut) for var, cut in found if cut is not None)
        return [cuts.get(id(var)) for var in jaxpr.outvars]

    def _equation(self, eqn: core.JaxprEqn, cuts: dict[int, Cut]) -> list[Cut | None]:
        if eqn.primitive.name == SHARD_MAP:
            for var, spec in zip(eqn.invars, eqn.params["in_specs"], strict=True):
                self._wanted(eqn, var, _cut(var, spec), cuts)
            wanted = zip(eqn.outvars, eqn.params["out_specs"], strict=True)
            return [_cut(var, spec) for var, spec in wanted]
        if eqn.primitive.name == _CONSTRAINT and (spec := _spec_of(eqn)) is not None:
            cut = _cut(eqn.invars[0], spec)
            self._wanted(eqn, eqn.invars[0], cut, cuts)
            return [cut]
        inner = inner_jaxprs(eqn)
        if len(inner) == 1 and len(inner[0].invars) == len(eqn.invars):
            return self._called(eqn, inner[0], cuts)
        return [None] * len(eqn.outvars) if inner else [_followed(eqn, cuts)] * len(eqn.outvars)

    def _called(
        self, eqn: core.JaxprEqn, inner: core.Jaxpr, cuts: dict[int, Cut]
    ) -> list[Cut | None]:
        results = self.read(inner, [cuts.get(id(var)) for var in eqn.invars])
        return results if len(results) == len(eqn.outvars) else [None] * len(eqn.outvars)

    def _wanted(self, eqn: core.JaxprEqn, var: Any, cut: Cut, cuts: dict[int, Cut]) -> None:
        before = cuts.setdefault(id(var), cut)
        if isinstance(var, core.Literal) or before == cut:
            return
        array = var.aval
        sent = round(_missing(array.shape, before, cut, self._sizes) * array.dtype.itemsize)
        self.found.append(Resharded(eqn, array, _otherwise(before, cut), sent))


def _spec_of(eqn: core.JaxprEqn) -> PartitionSpec | None:
    return getattr(eqn.params.get("sharding"), "spec", None)


def _cut(var: Any, spec: PartitionSpec) -> Cut:
    """A PartitionSpec with an entry for each dimension of the array."""
    entries = [_names(entry) for entry in spec]
    return tuple(entries + [()] * (len(var.aval.shape) - len(entries)))


def _names(entry: Any) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    return entry if isinstance(entry, tuple) else ()


def _followed(eqn: core.JaxprEqn, cuts: Mapping[int, Cut]) -> Cut | None:
    """How the result of an operation on elements lies: as its operands of the same shape do."""
    if len(eqn.outvars) != 1 or eqn.primitive.name in _MIXED:
        return None
    shape = getattr(eqn.outvars[0].aval, "shape", None)
    known = {cuts.get(id(v)) for v in eqn.invars if getattr(v.aval, "shape", ()) == shape}
    return known.pop() if len(known) == 1 else None


def _otherwise(before: Cut, after: Cut) -> tuple[str, ...]:
    """The axes of the mesh that do not cut the same dimension before and after."""
    placed = [
        {name: at for at, names in enumerate(cut) for name in names} for cut in (before, after)
    ]
    names = dict.fromkeys(name for cut in (before, after) for each in cut for name in each)
    moved = tuple(name for name in names if placed[0].get(name) != placed[1].get(name))
    return moved or tuple(names)


def _missing(shape: Sequence[int], before: Cut, after: Cut, sizes: Mapping[str, int]) -> float:
    """How many elements of its new part a device does not have yet: of the one that lacks most."""
    most = 0.0
    for numbers in itertools.product(*map(range, sizes.values())):
        device = dict(zip(sizes, numbers, strict=True))
        wanted, common = 1.0, 1.0
        for size, old, new in zip(shape, before, after, strict=True):
            (first, end), (begin, last) = (
                _part(size, names, device, sizes) for names in (old, new)
            )
            wanted *= last - begin
            common *= max(min(end, last) - max(first, begin), 0)
        most = max(most, wanted - common)
    return most


def _part(
    size: int, names: Sequence[str], device: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[float, float]:
    """From where to where a device's part of a dimension goes."""
    number, parts = 0, math.prod(sizes[name] for name in names)
    for name in names:
        number = number * sizes[name] + device[name]
    return number * size / parts, (number + 1) * size / parts
