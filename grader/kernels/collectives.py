"""What devices send to each other outside of kernels: counted by the trace of a launch.

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

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.extend import core

from grader.kernels.calls import array_type
from grader.kernels.jaxprs import Shaped
from grader.kernels.resharding import resharded
from grader.kernels.runs import equations_run
from grader.kernels.sharding import SHARD_MAP, axes_over
from grader.kernels.source_lines import line_in
from grader.model import RESHARDING, Axes, Collective, Runs

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
            runs.get(id(one.eqn), Runs()),
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
