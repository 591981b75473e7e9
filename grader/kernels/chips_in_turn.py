"""What each chip of a mesh copies by itself, chip by chip: see `dry_runs`."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from jax.extend import core

from grader.kernels.copies import NO_OPERAND, Copies, Copy
from grader.kernels.dry_ends import Untold
from grader.kernels.dry_events import Event, Multiplied, Semaphore, Started, Waited
from grader.kernels.dry_runs import Budget, DryRun
from grader.kernels.jaxprs import IN_HBM
from grader.kernels.routes import Way
from grader.model import Axes, Route, carried


def copies_of_chips(
    kernel: core.Jaxpr, grid: Sequence[int], axes: Axes, named: Sequence[str] = ()
) -> Copies:
    """What the chip of a mesh copies that sends most, in all steps of the grid.

    `named` are the grid's axes, by name, where they have names. Raises Untold where some copy
    depends on what the kernel reads.
    """
    sizes, budget = dict(axes), Budget()
    each = [
        _tallied(
            DryRun(kernel, tuple(grid), dict(zip(sizes, place, strict=True)), sizes, tuple(named),
                   budget).events(),
            len(kernel.invars),
        )
        for place in itertools.product(*map(range, sizes.values()))
    ]  # fmt: skip
    most = max(each, key=lambda one: (carried(one.routes or ()), one.sent or 0, _elements(one)))
    return dataclasses.replace(most, covered=_least(copies.covered for copies in each))


def _elements(copies: Copies) -> int:
    return sum(copy.times for copy in copies.known)


def _least(shares: Iterable[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def _tallied(events: Iterable[Event], operands: int) -> Copies:
    """The copies of one chip. What it sends, another of the same kind sends to it."""
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
    known = tuple(Copy(*what, times) for what, times in count.items())
    covered = meanwhile / multiplied if sent and multiplied else None
    routes = None if untold else tuple(Route(way, size) for way, size in ways.items() if way)
    return Copies(known, ("",) * operands, sent, False, covered, routes)


def _ends(copy: Started) -> Iterable[tuple[int, bool, tuple[int, ...]]]:
    """Its ends that are operands: position, whether it is read, and how much of it."""
    for end, inward in ((copy.source, True), (copy.target, False)):
        if end.buffer.operand is not None:
            yield end.buffer.operand, inward, end.extent
        elif end.space in IN_HBM:
            raise Untold(NO_OPERAND)
