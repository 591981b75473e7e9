"""Bytes that collectives and reshardings send outside of kernels.

A resharding is the move of an array if two `shard_map`s of a launch cut it in different ways. An
input of the launch begins as the first `shard_map` that takes it needs it. The result of an
elementwise operation is cut as its operands are; other results are unknown.

For n devices and B bytes of input on each of them, one device sends

    all_gather                   (n - 1) B         of the result, n B, all but its own part
    psum_scatter, all_to_all     (n - 1) / n B     all but the part that it keeps
    psum, pmax, pmin             2 (n - 1) / n B   psum_scatter, and all_gather of its result
    ppermute, pbroadcast         B
    ragged_all_to_all            B                 at most: the size is known only at run time

These are the bytes of the ring algorithms, and no algorithm sends less: R. Thakur, R. Rabenseifner
and W. Gropp, Optimization of Collective Communication Operations in MPICH, 2005; "How to Scale Your
Model", chapter 3, has the same. All but two send to neighbours in the ring. The bytes of all_to_all
and ppermute pass over several links, which `link_bytes` counts: min(d, n - d) of them to a chip at
the distance d.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core
from jax.sharding import PartitionSpec

from pallascope.kernels.calls import array_type
from pallascope.kernels.evaluator import Env, Evaluator
from pallascope.kernels.jaxprs import Atom, Shaped, inner_jaxprs
from pallascope.kernels.liveness import equations_run
from pallascope.kernels.sharding import SHARD_MAP, axes_over
from pallascope.kernels.source_lines import line_in
from pallascope.model import (
    RESHARDING,
    Axes,
    Collective,
    Cut,
    RunCount,
)

_CONSTRAINT = "sharding_constraint"
#: Operations that move elements even if the shape stays.
_MIXED = ("transpose", "dot_general", "reshape")


@dataclass(frozen=True, slots=True)
class Resharded:
    """An array that an equation needs cut in another way than it is.

    `axes` are the mesh axes that change; `sent` are the bytes that one device gets from others,
    which is also the average that each sends, if each gets its missing part from its owner.
    """

    eqn: core.JaxprEqn
    array: Any  # an abstract value
    axes: tuple[str, ...]
    sent: int


def resharded(closed: core.ClosedJaxpr, axes: Axes) -> list[Resharded]:
    """The arrays of a launch for a mesh of these axes that have to move, in program order."""
    reader = _ShardingReader(dict(axes))
    reader.evaluate(closed.jaxpr, [None] * len(closed.jaxpr.invars))
    return reader.found


def cuts_of_inputs(closed: core.ClosedJaxpr, axes: Axes) -> tuple[Cut | None, ...]:
    """How the first `shard_map` that takes an input of a launch cuts it; None if unknown."""
    reader = _ShardingReader(dict(axes))
    reader.evaluate(closed.jaxpr, [None] * len(closed.jaxpr.invars))
    return tuple(reader.first.get(id(var)) for var in closed.jaxpr.invars)


class _ShardingReader(Evaluator):
    """Reads a launch outside of its `shard_map`s. A value is the cut of an array."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.found: list[Resharded] = []
        self.first: dict[int, Cut] = {}  # by the id of a variable
        self._sizes = sizes

    def constant(self, value: Any) -> None:
        return None

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> list[Cut | None]:
        if eqn.primitive.name == SHARD_MAP:
            for var, spec in zip(eqn.invars, eqn.params["in_specs"], strict=True):
                self._wanted(eqn, var, _cut(var, spec), env)
            wanted = zip(eqn.outvars, eqn.params["out_specs"], strict=True)
            return [_cut(var, spec) for var, spec in wanted]
        if eqn.primitive.name == _CONSTRAINT and (spec := _spec_of(eqn)) is not None:
            cut = _cut(eqn.invars[0], spec)
            self._wanted(eqn, eqn.invars[0], cut, env)
            return [cut]
        unknown: list[Cut | None] = [None] * len(eqn.outvars)
        inner = inner_jaxprs(eqn)
        if len(inner) == 1 and len(inner[0].invars) == len(inputs):
            results = self.evaluate(inner[0], inputs)
            for var, own in zip(eqn.invars, inner[0].invars, strict=True):
                if id(own) in self.first:
                    self.first.setdefault(id(var), self.first[id(own)])
            return results if len(results) == len(unknown) else unknown
        return unknown if inner else [_followed(eqn, inputs)] * len(unknown)

    def _wanted(self, eqn: core.JaxprEqn, var: Atom, cut: Cut, env: Env) -> None:
        if isinstance(var, core.Literal):
            return
        if (before := env.get(var)) is None:
            env[var] = cut
            self.first.setdefault(id(var), cut)
        elif before != cut:
            array: Any = var.aval
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


def _followed(eqn: core.JaxprEqn, inputs: Sequence[Cut | None]) -> Cut | None:
    """The cut of an elementwise operation's result: that of its operands of the same shape."""
    if len(eqn.outvars) != 1 or eqn.primitive.name in _MIXED:
        return None
    shape = getattr(eqn.outvars[0].aval, "shape", None)
    operands = zip(eqn.invars, inputs, strict=True)
    known = {cut for v, cut in operands if getattr(v.aval, "shape", ()) == shape}
    return known.pop() if len(known) == 1 else None


def _otherwise(before: Cut, after: Cut) -> tuple[str, ...]:
    """The mesh axes that don't cut the same dimension before and after."""
    placed = [
        {name: at for at, names in enumerate(cut) for name in names} for cut in (before, after)
    ]
    names = dict.fromkeys(name for cut in (before, after) for each in cut for name in each)
    moved = tuple(name for name in names if placed[0].get(name) != placed[1].get(name))
    return moved or tuple(names)


def _missing(shape: Sequence[int], before: Cut, after: Cut, sizes: Mapping[str, int]) -> float:
    """The number of missing elements in the new part of the device that lacks most."""
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
    """The first and last element of a device's part of a dimension."""
    number, parts = 0, math.prod(sizes[name] for name in names)
    for name in names:
        number = number * sizes[name] + device[name]
    return number * size / parts, (number + 1) * size / parts


#: The bytes that one of n devices sends, as a multiple of its input.
_Share = Callable[[int], float]


def _both_ways(n: int) -> float:
    return 2 * (n - 1) / n


def _all_but_own(n: int) -> float:
    return (n - 1) / n


def _to_all_others(n: int) -> float:
    return n - 1


def _whole(n: int) -> float:
    return float(n > 1)


#: By the names of their primitives: jax.lax's name, and the function for the bytes sent.
_KNOWN: dict[str, tuple[str, _Share]] = {
    "psum": ("psum", _both_ways),
    "psum_invariant": ("psum", _both_ways),
    "unreduced_psum": ("psum", _both_ways),
    "pmax": ("pmax", _both_ways),
    "pmin": ("pmin", _both_ways),
    "all_gather": ("all_gather", _to_all_others),
    "all_gather_invariant": ("all_gather", _to_all_others),
    "all_gather_reduced": ("all_gather", _to_all_others),
    "reduce_scatter": ("psum_scatter", _all_but_own),
    "unreduced_reduce_scatter": ("psum_scatter", _all_but_own),
    "all_to_all": ("all_to_all", _all_but_own),
    "ragged_all_to_all": ("ragged_all_to_all", _whole),
    "ppermute": ("ppermute", _whole),
    "pbroadcast": ("pbroadcast", _whole),
}
_STARTED = {f"{name}_start": known for name, known in _KNOWN.items()}
COLLECTIVES = _KNOWN | _STARTED


def collectives_of(closed: core.ClosedJaxpr, axes: Axes, file: str = "") -> tuple[Collective, ...]:
    """A launch's collectives outside of its kernels, for a mesh of these axes, in program order.

    `file` is the judged one, for the lines. Leaves out operations that XLA removes because nothing
    uses them, and those over a single device.
    """
    found = [*_named(closed, axes, file), *_laid_anew(closed, axes, file)]
    return tuple(one for one in found if one.sent and one.runs.times)


def _named(closed: core.ClosedJaxpr, axes: Axes, file: str) -> Iterator[Collective]:
    for eqn, runs in equations_run(closed, tuple(COLLECTIVES)):
        name, share = COLLECTIVES[eqn.primitive.name]
        over = axes_over(eqn)
        devices = _together(eqn, over, axes)
        arrays: list[Any] = [var.aval for var in _put_in(eqn, name)]
        sent = round(sum(map(_bytes, arrays)) * share(devices))
        if name == "ppermute" and all(source == target for source, target in eqn.params["perm"]):
            sent = 0
        types, line = tuple(map(array_type, arrays)), line_in(eqn, file) if file else 0
        hops = _hops(name, devices, eqn)
        yield Collective(name, over, devices, types, sent, runs, line, hops)


def _hops(name: str, n: int, eqn: core.JaxprEqn) -> float:
    """The average number of links of a ring of n devices that a byte passes."""
    if name in ("all_to_all", "ragged_all_to_all") and n > 1:
        return (n * n // 4) / (n - 1)
    if name == "ppermute":
        ways = [(target - source) % n for source, target in eqn.params["perm"]]
        return float(max((min(way, n - way) for way in ways), default=1))
    return 1.0


def _laid_anew(closed: core.ClosedJaxpr, axes: Axes, file: str) -> Iterator[Collective]:
    runs = {id(eqn): runs for eqn, runs in equations_run(closed, (SHARD_MAP,))}
    for one in resharded(closed, axes):
        sizes = dict(axes)
        yield Collective(
            RESHARDING,
            one.axes,
            math.prod(sizes[name] for name in one.axes),
            (array_type(one.array),),
            one.sent,
            runs.get(id(one.eqn), RunCount()),
            line_in(one.eqn, file) if file else 0,
        )


def _together(eqn: core.JaxprEqn, over: Sequence[str], axes: Axes) -> int:
    """The number of devices that take part together."""
    if groups := eqn.params.get("axis_index_groups"):
        return max(map(len, groups))
    sizes = dict(axes)
    return math.prod(sizes.get(name, 1) for name in over)


def _put_in(eqn: core.JaxprEqn, name: str) -> list[Any]:
    """The arrays that one device sends from; only the first for a ragged exchange."""
    arrays = [var for var in eqn.invars if isinstance(var.aval, Shaped)]
    return arrays[:1] if name == "ragged_all_to_all" else arrays


def _bytes(array: Shaped) -> int:
    return math.prod(array.shape) * array.dtype.itemsize
