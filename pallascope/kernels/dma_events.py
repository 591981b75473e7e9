"""DMA events of a body on each chip: copies, routes, signals, products, their overlap.

The scalar part of the body is evaluated without data, chip by chip, and counts the copies that a
trace alone can't count. This module has the events as data, the parts of buffers and the semaphores
that equations name, and the routes of copies between chips.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core

from pallascope.kernels.evaluator import (
    Env,
    EquationBudget,
    Events,
    NotKnown,
    Number,
    PartialEvaluator,
    happens,
)
from pallascope.kernels.jaxprs import (
    IN_HBM,
    Atom,
    array_struct,
    inner_jaxprs,
    memory_space,
    primitives,
)
from pallascope.kernels.manual_dma import (
    NO_OPERAND,
    UNTOLD_SIZE,
    Dma,
    Dmas,
    extent,
    is_remote,
    parts,
    ref_of,
)
from pallascope.kernels.operation_counts import product_flops
from pallascope.kernels.refs import names_of
from pallascope.model import Axes, Route, total_link_bytes

#: A chip's numbers along the axes of the mesh.
Place = tuple[int, ...]
#: The axes along which it goes, each with its steps; negative steps lead to lower numbers.
Way = tuple[tuple[str, int], ...]


def receiver(
    device: Any, chip: Mapping[str, int], sizes: Mapping[str, int], number: Callable[[Any], Number]
) -> Place | None:
    """The receiving chip of a copy that `chip` starts, from its `device_id`, here `device`.

    That is a number for each axis, numbers by the names of axes, or one number for all; `number`
    resolves each of them. None if it is unknown, or if there is no such chip.
    """
    if isinstance(device, Mapping):
        if not set(device) <= set(sizes):
            return None
        found = [number(device[name]) if name in device else chip[name] for name in sizes]
    elif isinstance(device, (tuple, list)):
        found = [number(one) for one in device]
    else:
        found = _of_all(number(device), tuple(sizes.values()))
    there = len(found) == len(sizes) and all(
        one is not None and 0 <= int(one) < size
        for one, size in zip(found, sizes.values(), strict=False)
    )
    return tuple(int(one or 0) for one in found) if there else None


def _of_all(number: Number, sizes: Sequence[int]) -> list[Number]:
    """The numbers along the axes of the chip with this number among all chips."""
    if number is None or not 0 <= int(number) < math.prod(sizes):
        return []
    found: list[Number] = []
    left = int(number)
    for size in reversed(sizes):
        left, along = divmod(left, size)
        found.insert(0, along)
    return found


def ways(sender: Sequence[int], target: Sequence[int], sizes: Mapping[str, int]) -> tuple[Way, ...]:
    """The shortest ways along the axes, each of which is a ring: its ends are neighbours.

    There are several if both ways round a ring have the same length.
    """
    each = [
        [(name, number) for number in _steps((end - start) % size, size)]
        for (name, size), start, end in zip(sizes.items(), sender, target, strict=True)
    ]
    return tuple(
        tuple((name, number) for name, number in steps if number)
        for steps in itertools.product(*each)
    )


def _steps(up: int, size: int) -> tuple[int, ...]:
    """The distances to a chip that is `up` further on in a ring; both ways if they are equal."""
    if size > 2 and 2 * up == size:
        return up, -up
    return (up if 2 * up <= size else up - size,)


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """The buffer of a Ref: an operand, by its position, or from an inner scope; and its name.

    `key` is the same on all chips.
    """

    operand: int | None
    name: str
    key: Hashable


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy: the number of elements along each dimension of a buffer.

    `at` are the indices, if known, in words.
    """

    buffer: Buffer
    extent: tuple[int, ...]
    space: str
    size: int  # bytes
    at: str = ""

    @property
    def said(self) -> str:
        """Its name in the kernel."""
        return self.buffer.name + self.at


#: A buffer of semaphores, and the index of one of them.
Semaphore = tuple[Buffer, tuple[Number, ...]]


@dataclass(frozen=True, slots=True)
class Started:
    """A copy starts; if `remote`, it goes to another chip, `to` if that is known.

    `ways` lead there, () if unknown. `own` is the sender's semaphore.
    """

    source: End
    target: End
    semaphore: Semaphore
    remote: bool
    ways: tuple[Way, ...] = ()
    to: Place | None = None
    own: Semaphore | None = None


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait for this many bytes."""

    semaphore: Semaphore
    size: int


@dataclass(frozen=True, slots=True)
class Multiplied:
    """Matrices are multiplied, with this many operations."""

    operations: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """A semaphore is signalled; if `remote`, one of another chip."""

    semaphore: Semaphore
    count: int
    remote: bool
    to: Place | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """A wait for this many signals."""

    semaphore: Semaphore
    count: int


Event = Started | Waited | Multiplied | Signalled | Awaited


def value(atom: Atom, known: Mapping[core.Var, Any]) -> Any:
    """A number, a Buffer, or None for anything else."""
    if isinstance(atom, core.Var):
        return known.get(atom)
    value = atom.val
    if getattr(value, "shape", ()) != ():
        return None
    return value.item() if hasattr(value, "item") else value


def end_of(end: Any, known: Mapping[core.Var, Any]) -> End:
    """One end of a copy. Raises NotKnown."""
    ref = ref_of(end)
    buffer, sizes = value(ref, known), extent(end)
    if not isinstance(buffer, Buffer) or sizes is None:
        raise NotKnown(UNTOLD_SIZE)
    size = math.prod(sizes) * array_struct(ref).dtype.itemsize
    return End(buffer, sizes, memory_space(ref.aval), size, _at(end, known))


def _at(end: Any, known: Mapping[core.Var, Any]) -> str:
    """The indices of a part, in words: "[1, 0:8]". Whole dimensions at the end are left out."""
    texts = []
    for transform in getattr(end, "transforms", ()):
        for index in getattr(transform, "indices", ()):
            if not hasattr(index, "stride"):
                texts.append(_in_words(number(index, known)))
                continue
            first = number(index.start, known)
            last = None if first is None else int(first) + index.size
            texts.append(f"{_in_words(first)}:{_in_words(last)}")
    sizes = list(getattr(array_struct(ref_of(end)), "shape", ()))
    while texts and len(texts) <= len(sizes) and texts[-1] == f"0:{sizes[len(texts) - 1]}":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else ""


def _in_words(number: Number) -> str:
    return "?" if number is None else str(int(number))


def semaphore(end: Any, known: Mapping[core.Var, Any]) -> Semaphore:
    """The semaphore that counts a copy."""
    return semaphore_at(ref_of(end), getattr(end, "transforms", ()), known)


def semaphore_at(ref: Any, transforms: Sequence[Any], known: Mapping[core.Var, Any]) -> Semaphore:
    """The semaphore that these transforms choose from a Ref."""
    buffer = value(ref, known)
    assert isinstance(buffer, Buffer), ref
    indices = (index for one in transforms for index in getattr(one, "indices", ()))
    return buffer, tuple(number(index, known) for index in indices)


def number(index: Any, known: Mapping[core.Var, Any]) -> Number:
    """A scalar of the kernel; None if it is unknown."""
    if isinstance(index, (core.Var, core.Literal)):
        return value(index, known)
    return int(index) if getattr(index, "shape", None) == () or isinstance(index, int) else None


#: The most equations of all steps and chips together; longer kernels aren't evaluated.
MOST_EQUATIONS = 3_000_000

_COPIES = ("dma_start", "dma_wait")
_UNNAMED = "a buffer of a pipeline"
_SIGNALS = ("semaphore_signal", "semaphore_wait")


@dataclass
class DmaEvaluator(PartialEvaluator):
    """Evaluates a kernel's body on one chip, over all steps of the grid.

    `places` are the chip's numbers along the axes of the mesh, `sizes` the sizes of these axes, and
    `named` the grid's axes that have names. With `signals`, signals of semaphores are events too.
    """

    kernel: core.Jaxpr
    grid: tuple[int, ...]
    places: Mapping[str, int]
    sizes: Mapping[str, int]
    named: tuple[str, ...]
    budget: EquationBudget
    signals: bool = False
    _step: tuple[int, ...] = ()

    def run(self) -> Iterator[Event]:
        """The events, in order. Raises NotKnown."""
        names = names_of(self.kernel)
        operands = [
            Buffer(at, names[at], at) if hasattr(var.aval, "inner_aval") else None
            for at, var in enumerate(self.kernel.invars)
        ]
        for step in itertools.product(*map(range, self.grid)):
            self._step = step
            yield from self.events(self.kernel, operands)

    def value(self, atom: Atom, env: Env) -> Any:
        return value(atom, env)

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any] | Events:
        match eqn.primitive.name:
            case "dma_start" | "dma_wait":
                return happens(eqn, self._copy(eqn, env))
            case "semaphore_signal" | "semaphore_wait" if self.signals:
                return happens(eqn, self._signal(eqn, env))
            case "get_barrier_semaphore":
                return [Buffer(None, "the barrier semaphore", "barrier")]
            case "dot_general":
                return happens(eqn, Multiplied(product_flops(eqn)))
            case "axis_index":
                return [self._axis(eqn.params["axis_name"])]
            case "program_id":
                return [self._step[eqn.params["axis"]]]
            case "num_programs":
                return [self.grid[eqn.params["axis"]]]
        return PartialEvaluator.operation(self, eqn, inputs, env)

    def acts(self, eqn: core.JaxprEqn) -> bool:
        names = {"dma_start", *_SIGNALS} if self.signals else {"dma_start"}
        return any(not names.isdisjoint(primitives(inner)) for inner in inner_jaxprs(eqn))

    def is_skipped(self, scan: core.JaxprEqn) -> bool:
        (body,) = inner_jaxprs(scan)
        names = {*_COPIES, *_SIGNALS, "dot_general"}
        is_long = len(body.eqns) * scan.params["length"] > 1000
        return is_long and names.isdisjoint(primitives(body))

    def buffers(self, eqn: core.JaxprEqn, body: core.Jaxpr) -> list[Any]:
        names = [name if name.isidentifier() else _UNNAMED for name in names_of(body)]
        return [Buffer(None, name, id(var)) for var, name in zip(body.invars, names, strict=True)]

    def _axis(self, name: Any) -> Number:
        """The chip's number along an axis, or along several, the last one varying fastest."""
        names, number = (name if isinstance(name, tuple) else (name,)), 0
        for one in names:
            if one in self.places:
                number = number * self.sizes[one] + self.places[one]
            elif one in self.named:
                axis = self.named.index(one)
                number = number * self.grid[axis] + self._step[axis]
            else:
                return None
        return number

    def _copy(self, eqn: core.JaxprEqn, known: Env) -> Started | Waited:
        source, target, counted, own, device = parts(eqn)
        at = semaphore(counted, known)
        if eqn.primitive.name == "dma_wait":
            return Waited(at, end_of(target, known).size)
        ends = end_of(source, known), end_of(target, known)
        if not is_remote(eqn):
            return Started(*ends, at, remote=False)
        to = self._named(device, known)
        here = tuple(self.places[name] for name in self.sizes)
        way = () if to is None else ways(here, to, self.sizes)
        return Started(*ends, at, True, way, to, None if own is None else semaphore(own, known))

    def _named(self, device: Any, known: Env) -> Place | None:
        """The chip that a `device_id` names; None if unknown."""
        return receiver(device, self.places, self.sizes, lambda one: number(one, known))

    def _signal(self, eqn: core.JaxprEqn, known: Env) -> Signalled | Awaited:
        ref, transforms, count, *more = jax.tree.unflatten(eqn.params["args_tree"], eqn.invars)
        at, times = semaphore_at(ref, transforms, known), number(count, known)
        if times is None:
            raise NotKnown("the count of a signal depends on data that the kernel reads")
        if eqn.primitive.name == "semaphore_wait":
            return Awaited(at, int(times))
        device = more[0]
        to = None if device is None else self._named(device, known)
        return Signalled(at, int(times), device is not None, to)


def copies_of_chips(
    kernel: core.Jaxpr, grid: Sequence[int], axes: Axes, named: Sequence[str] = ()
) -> Dmas:
    """The copies of the chip of a mesh that sends most, in all steps of the grid.

    `named` are the grid's axes by name, if they have names. Raises NotKnown if a copy depends on
    data that the kernel reads.
    """
    sizes, budget = dict(axes), EquationBudget(MOST_EQUATIONS)
    each = [
        _tallied(
            DmaEvaluator(kernel, tuple(grid), dict(zip(sizes, place, strict=True)), sizes,
                         tuple(named), budget).run(),
            len(kernel.invars),
        )
        for place in itertools.product(*map(range, sizes.values()))
    ]  # fmt: skip
    most = max(
        each, key=lambda one: (total_link_bytes(one.routes or ()), one.sent or 0, _elements(one))
    )
    return dataclasses.replace(most, covered=_least(copies.covered for copies in each))


def _elements(copies: Dmas) -> int:
    return sum(copy.times for copy in copies.known)


def _least(shares: Iterable[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def _tallied(events: Iterable[Event], operands: int) -> Dmas:
    """The copies of one chip. It gets as many from another chip as it sends."""
    ways, untold = Counter[Way](), False
    count, coming = Counter[tuple[int, bool, tuple[int, ...]]](), Counter[Semaphore]()
    sent = multiplied = meanwhile = 0
    for event in events:
        if isinstance(event, Multiplied):
            multiplied += event.operations
            meanwhile += event.operations * (+coming != Counter())
        elif isinstance(event, Started):
            count.update(_ends(event))
            if event.remote:
                sent += event.source.size
                untold |= not event.ways
                for way in event.ways:
                    ways[way] += event.source.size // len(event.ways)
                coming[event.semaphore] += event.source.size
        elif isinstance(event, Waited):
            coming[event.semaphore] -= event.size * (event.semaphore in coming)
    known = tuple(Dma(*what, times) for what, times in count.items())
    covered = meanwhile / multiplied if sent and multiplied else None
    routes = None if untold else tuple(Route(way, size) for way, size in ways.items() if way)
    return Dmas(known, ("",) * operands, sent, False, covered, routes)


def _ends(copy: Started) -> Iterable[tuple[int, bool, tuple[int, ...]]]:
    """The ends of a copy that are operands: position, whether it is read, and its extent."""
    for end, inward in ((copy.source, True), (copy.target, False)):
        if end.buffer.operand is not None:
            yield end.buffer.operand, inward, end.extent
        elif end.space in IN_HBM:
            raise NotKnown(NO_OPERAND)
