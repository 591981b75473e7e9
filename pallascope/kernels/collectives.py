"""Bytes that collectives and reshardings send outside of kernels.

Arrays that two `shard_map`s of a launch cut in different ways: XLA moves them in between.
An input of the launch lies as the first `shard_map` that takes it wants it. What is computed from
an array element by element lies as the array does; of all else nothing is said.

What devices send to each other outside of kernels: counted by the trace of a launch.
For n devices and B bytes that each of them puts in, one device sends

    all_gather                   (n - 1) B         of the result, n B, all but its own part
    psum_scatter, all_to_all     (n - 1) / n B     all but the part that it keeps
    psum, pmax, pmin             2 (n - 1) / n B   psum_scatter, and all_gather of what came of it
    ppermute, pbroadcast         B
    ragged_all_to_all            B                 at most: how much is known only at run time

These are the bytes of the ring algorithms, and no algorithm sends less: R. Thakur, R. Rabenseifner
and W. Gropp, Optimization of Collective Communication Operations in MPICH, 2005; "How to Scale Your
Model", chapter 3, has the same. All but two send to neighbours in the ring. What all_to_all and
ppermute send to others passes over several links, which is in `carried_bytes`: to a chip that is d
further on, min(d, n - d) of them.
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
    RunCount,
)

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
    reader = _ShardingReader(dict(axes))
    reader.evaluate(closed.jaxpr, [None] * len(closed.jaxpr.invars))
    return reader.found


class _ShardingReader(Evaluator):
    """Reads a launch outside of its `shard_map`s. A value is how an array is cut."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.found: list[Resharded] = []
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
            return results if len(results) == len(unknown) else unknown
        return unknown if inner else [_followed(eqn, inputs)] * len(unknown)

    def _wanted(self, eqn: core.JaxprEqn, var: Atom, cut: Cut, env: Env) -> None:
        if isinstance(var, core.Literal):
            return
        if (before := env.get(var)) is None:
            env[var] = cut
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
    """How the result of an elementwise operation is cut: as its operands of the same shape are."""
    if len(eqn.outvars) != 1 or eqn.primitive.name in _MIXED:
        return None
    shape = getattr(eqn.outvars[0].aval, "shape", None)
    operands = zip(eqn.invars, inputs, strict=True)
    known = {cut for v, cut in operands if getattr(v.aval, "shape", ()) == shape}
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


#: Of n devices, how much one sends, as a multiple of what it puts in.
_Share = Callable[[int], float]


def _both_ways(n: int) -> float:
    return 2 * (n - 1) / n


def _all_but_own(n: int) -> float:
    return (n - 1) / n


def _to_all_others(n: int) -> float:
    return n - 1


def _whole(n: int) -> float:
    return float(n > 1)


#: By the names of their primitives: what jax.lax calls each, and how much is sent.
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
    """What a launch for a mesh of these axes sends outside of its kernels, in program order.

    `file` is the learner's, for the lines. What XLA removes, since nothing uses it, and what goes
    over a single device, is not among them.
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
    """Over how many links of a ring of n devices a byte passes, on average, to where it goes."""
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
    """How many devices do this with each other."""
    if groups := eqn.params.get("axis_index_groups"):
        return max(map(len, groups))
    sizes = dict(axes)
    return math.prod(sizes.get(name, 1) for name in over)


def _put_in(eqn: core.JaxprEqn, name: str) -> list[Any]:
    """The arrays that one device sends of: of a ragged exchange, the first one alone."""
    arrays = [var for var in eqn.invars if isinstance(var.aval, Shaped)]
    return arrays[:1] if name == "ragged_all_to_all" else arrays


def _bytes(array: Shaped) -> int:
    return math.prod(array.shape) * array.dtype.itemsize
