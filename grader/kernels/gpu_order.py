"""What a kernel for GPUs leaves to chance: its first and last block, in orders that may happen.

What is found in a block (`gpu_block`) is certain; where a thread can't be followed, nothing is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from jax.extend import core

from grader.kernels.gpu_block import Block
from grader.kernels.gpu_calls import is_for_gpus
from grader.kernels.gpu_following import Thread
from grader.kernels.gpu_reading import NotFollowed
from grader.kernels.gpu_tables import Table, tables_of
from grader.kernels.outside_kernels import OutsideReader
from grader.kernels.pallas_params import body, mesh
from grader.model import Disorder, GpuFault, Source

#: In which order threads run, as (after a copy's arrival, after a thread's own): whether those that
#: it lets go on do so at once, or the one that has arrived goes on first.
_ORDERS = ((False, True), (True, True), (False, False))
#: What comes of equations of a form that is not known here.
_MOVED = (AttributeError, KeyError, TypeError, ValueError)


#: What is told first: the rest may follow from it.
_RANK = {disorder: rank for rank, disorder in enumerate(Disorder)}


def disorders(
    closed: core.ClosedJaxpr, source: Source, values: Sequence[Any] = ()
) -> tuple[GpuFault, ...]:
    """The faults of a launch's kernels, each once, in the order of `Disorder`.

    Nothing of a kernel that can't be followed. `values` are the launch's inputs, where they are
    known: what a kernel does may depend on tables among them.
    """
    try:
        tables = tables_of(closed, values)
    except Exception:  # of operations around the kernel, which may be wrong in any way
        tables = {}
    found: dict[tuple[Any, ...], GpuFault] = {}
    for kernel in filter(is_for_gpus, OutsideReader(closed, source.file).kernels):
        for last, order in itertools.product((False, True), _ORDERS):
            for fault in _of_block(kernel, source, last, order, tables.get(id(kernel), ())):
                line = fault.line.line if fault.line else 0
                found.setdefault((fault.disorder, fault.ref.partition("[")[0], line), fault)
    return tuple(sorted(found.values(), key=lambda fault: _RANK[fault.disorder]))


def _of_block(
    kernel: core.JaxprEqn,
    source: Source,
    last: bool,
    order: tuple[bool, bool],
    tables: Sequence[Table | None],
) -> list[GpuFault]:
    """The faults of the first or of the last block of the grid."""
    on: Any = mesh(kernel)
    if any(size > 1 for size in on.cluster):
        return []
    axes = {
        name: (size - 1 if last else 0) for name, size in zip(on.grid_names, on.grid, strict=True)
    }
    axes |= dict.fromkeys(on.cluster_names, 0)
    count = int(on.num_threads or 1)
    threads = []
    for number in range(count):
        own = {**axes, on.thread_name: number} if on.thread_name else axes
        threads.append(Thread(number, own, source.file))
    block = Block(source, *order)
    given = [*tables, *[None] * (len(body(kernel).invars) - len(tables))]
    try:
        block.run([thread.follow(body(kernel), given) for thread in threads])
    except (NotFollowed, RecursionError, *_MOVED):
        return []
    return block.faults
