"""The DMAs that a kernel's body starts: operands, sizes, counts.

They come from the trace: sizes are static unless the kernel computes them, and so is the number of
copies outside of conditions and of loops whose length is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core

from pallascope.kernels.jaxprs import (
    CALLS,
    IN_HBM,
    Atom,
    Site,
    array_struct,
    inner_jaxprs,
    memory_space,
    passed,
    primitives,
    sites,
)
from pallascope.model import Route

CONDITIONAL = "under a condition"
UNTOLD_LOOP = "a number of times known only at run time"
UNTOLD_SIZE = "a size known only at run time"
REMOTE = "from or to another chip"
UNTOLD_CALL = "in an operation whose copies are not counted"
NO_OPERAND = "from or to a buffer in HBM that isn't an operand"

_START = "dma_start"


@dataclass(frozen=True, slots=True)
class Dma:
    """One DMA of a body: `extent` elements along each dimension of an operand, run `times` times.

    `operand` is its position among those of the kernel; `inward`: it is read, not written.
    """

    operand: int
    inward: bool
    extent: tuple[int, ...]
    times: int


@dataclass(frozen=True, slots=True)
class Dmas:
    """The known DMAs in one run of a body, and for each operand the reason if others are unknown.

    `sent` are the bytes that go to other chips; None if known only at run time. If `each_step` is
    False, the copies are those of all steps of the grid. `covered` is the share of all matrix
    products, 0 to 1, that overlaps with copies from another chip; None if it wasn't computed, or if
    nothing is multiplied or sent. `routes` are the ways that `sent` takes; None if unknown.
    """

    known: tuple[Dma, ...]
    unknown: tuple[str, ...]
    sent: int | None = 0
    each_step: bool = True
    covered: float | None = None
    routes: tuple[Route, ...] | None = ()

    def of(self, operand: int) -> tuple[Dma, ...] | None:
        """The copies of one operand; None if not all are known."""
        if self.unknown[operand]:
            return None
        return tuple(copy for copy in self.known if copy.operand == operand)


def copies_of(kernel: core.Jaxpr, *, alike: bool = False) -> Dmas:
    """The copies that one run of a kernel's body makes itself.

    If all chips do the same (`alike`), each gets from others as much as it sends.
    """
    counted = _Counter(kernel, alike)
    routes = None if counted.sent != 0 else ()
    return Dmas(tuple(counted.known), tuple(counted.unknown), counted.sent, routes=routes)


def copied_into_smem(kernel: core.Jaxpr) -> frozenset[int]:
    """The positions of inputs of a body that it copies into SMEM, where the scalar core reads."""
    positions, found = _positions(kernel), set[int]()
    for site in sites(kernel):
        if site.eqn.primitive.name == _START:
            source, target = map(ref_of, ends(site.eqn))
            if memory_space(target.aval) == "smem":
                found.add(positions.get(id(site.root(source)), -1))
    return frozenset(found - {-1})


def _positions(kernel: core.Jaxpr) -> dict[int, int]:
    """The positions of a body's inputs, by their ids."""
    return {id(var): at for at, var in enumerate(kernel.invars)}


def copied_buffers(kernel: core.Jaxpr) -> tuple[frozenset[int], tuple[core.Var, ...]]:
    """The sources and targets of a body's DMAs: the positions of its inputs; and the buffers in
    VMEM of its `run_scoped`s, the largest set that exists at the same time."""
    used = {
        id(site.root(ref_of(end)))
        for site in sites(kernel)
        if site.eqn.primitive.name == _START
        for end in ends(site.eqn)
    }
    most: tuple[core.Var, ...] = ()
    for site in sites(kernel):
        if site.eqn.primitive.name != "run_scoped":
            continue
        scopes = [eqn for eqn in (*site.path, site.eqn) if eqn.primitive.name == "run_scoped"]
        refs = (var for scope in scopes for body in inner_jaxprs(scope) for var in body.invars)
        held = [ref for ref in refs if id(ref) in used and memory_space(ref.aval) == "vmem"]
        most = max(most, tuple(held), key=lambda each: sum(map(_bytes, each)))
    inputs = (at for at, var in enumerate(kernel.invars) if id(var) in used)
    return frozenset(inputs), most


def _bytes(ref: core.Var) -> int:
    array = array_struct(ref)
    return math.prod(array.shape) * array.dtype.itemsize


def ends(dma_start: core.JaxprEqn) -> tuple[Any, Any]:
    """The source and the target of a DMA: Refs of the jaxpr, or TransformedRefs of them."""
    source, target, *_ = parts(dma_start)
    return source, target


def ref_of(end: Any) -> Atom:
    """The Ref of the jaxpr that contains one end of a DMA."""
    while hasattr(end, "ref"):
        end = end.ref
    return end


def is_remote(dma_start: core.JaxprEqn) -> bool:
    """Whether a DMA goes to another chip."""
    return parts(dma_start)[-1] is not None


def parts(dma: core.JaxprEqn) -> Sequence[Any]:
    """For a start or a wait: source, target, the semaphore that it is about, the sender's
    semaphore, and the other chip's number, None for a copy within a chip."""
    return jax.tree.unflatten(dma.params["tree"], dma.invars)


class _Counter:
    """Counts the copies of a body."""

    def __init__(self, kernel: core.Jaxpr, alike: bool) -> None:
        self._alike = alike
        self._positions = _positions(kernel)
        self.sent: int | None = 0
        self.known: list[Dma] = []
        self.unknown = [""] * len(kernel.invars)
        for site in sites(kernel):
            if site.eqn.primitive.name == _START:
                self._copy(site)
            for inner in inner_jaxprs(site.eqn):
                if _START in primitives(inner):
                    self._lose(site, inner)

    def _operand(self, site: Site, atom: Atom) -> int | None:
        return self._positions.get(id(site.root(atom)))

    def _lose(self, site: Site, inner: core.Jaxpr) -> None:
        """Notes the operands that an equation takes and doesn't pass on to an inner jaxpr."""
        kept = {self._operand(site, atom) for _, atom in passed(site.eqn, inner)}
        for operand in {self._operand(site, atom) for atom in site.eqn.invars} - kept - {None}:
            self.unknown[operand or 0] = UNTOLD_CALL

    def _copy(self, site: Site) -> None:
        """Adds a copy, or the reason if it can't be counted."""
        dma, times = site.eqn, _times(site)
        remote = is_remote(dma) and not self._alike
        if is_remote(dma):
            self._send(ends(dma)[0], times)
        for end, inward in zip(ends(dma), (True, False), strict=True):
            operand = self._operand(site, ref_of(end))
            if operand is None:
                if memory_space(ref_of(end).aval) in IN_HBM:
                    self.unknown = [why or NO_OPERAND for why in self.unknown]
                continue
            sizes = extent(end)
            if remote or isinstance(times, str) or sizes is None:
                why = REMOTE if remote else times if isinstance(times, str) else UNTOLD_SIZE
                self.unknown[operand] = self.unknown[operand] or why
            else:
                self.known.append(Dma(operand, inward, sizes, times))

    def _send(self, source: Any, times: int | str) -> None:
        sizes = extent(source)
        if isinstance(times, str) or sizes is None or self.sent is None:
            self.sent = None
        else:
            item = array_struct(ref_of(source)).dtype.itemsize
            self.sent += math.prod(sizes) * item * times


def _times(site: Site) -> int | str:
    """How often an equation runs, or in words the reason if that is unknown."""
    for eqn in site.path:
        name = eqn.primitive.name
        if name not in (*CALLS, "run_scoped", "scan"):
            return CONDITIONAL if name == "cond" else UNTOLD_LOOP
    return site.times


def extent(end: Any) -> tuple[int, ...] | None:
    """The size of one end of a DMA along each of its Ref's dimensions; None if known only at run
    time."""
    sizes = list(array_struct(ref_of(end)).shape)
    live = range(len(sizes))
    for transform in getattr(end, "transforms", ()):
        indices = getattr(transform, "indices", None)
        if indices is None or len(indices) != len(live):
            return None  # a view in another shape or dtype
        kept = []
        for axis, index in zip(live, indices, strict=True):
            if not hasattr(index, "stride"):
                if math.prod(getattr(getattr(index, "aval", index), "shape", ())) != 1:
                    return None
                sizes[axis] = 1
                continue
            if not isinstance(index.size, int) or index.stride != 1:
                return None
            sizes[axis] = index.size
            kept.append(axis)
        live = kept
    return tuple(sizes)
