"""The blocks that a kernel's pipeline moves on each grid step.

    >>> from pallascope.tpu.pipeline_steps import motions
    >>> (kernel,) = motions(matmul, x, y, chip="v5e", bm=128)
    >>> kernel.paths[0].first, kernel.paths[0].place

An operand's block stays in place for a *run* of grid steps. An input's block is fetched for the
first step of a run, an output's is written back after the last. So each run of an operand is one
move, and its bytes are those of the run's place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pallascope.model import (
    Axes,
    CommTimeline,
    KernelCall,
    Operand,
    Problem,
    Role,
)
from pallascope.tpu import traffic
from pallascope.tpu.chips import DEFAULT, named
from pallascope.tpu.predict import distinct_names
from pallascope.tpu.traffic import OUTSIDE, OperandTraffic, Traffic

if TYPE_CHECKING:
    from pallascope.kernels import TracedLaunch
    from pallascope.kernels.lowering import TracedKernel

Ints = np.ndarray[Any, Any]

#: The maximum number of grid steps to follow.
MAX_STEPS = 50_000
#: Tables of more elements are not copied.
MAX_TABLE_CELLS = 65_536


@dataclass(frozen=True, slots=True)
class Path:
    """The places of one operand's block, run by run.

    `first` is the grid step on which each run begins, and `place` is the number of its place. A
    place has `rank` entries in `starts` (in elements) and one in `sizes`: the bytes moved for it,
    padding included. Places are numbered in order of first use.
    """

    first: tuple[int, ...]
    place: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TableRead:
    """One read of a table in an index map: the row-major `cell` from each step in `first` on.

    A cell of -1 means that a condition keeps the index map from reading. Without steps, the cells
    are unknown.
    `operand` and `table` are positions among the operands of the kernel.
    """

    operand: int
    table: int
    first: tuple[int, ...]
    cell: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockMotion:
    """One kernel's blocks over its grid, as far as index maps and scalar prefetch determine them.

    `labels`, `paths` and `tables` align with the operands. A path is None if the operand has no
    blocks or they are unknown (`traffic` has the reason); a table is None if there is none or its
    contents are unknown. `steps` is the size of the grid, 0 if unknown; the first `shown` of
    them are followed. `comm_timeline` describes the chips of a mesh, if there is one.
    """

    call: KernelCall
    labels: tuple[str, ...]
    steps: int
    shown: int
    traffic: Traffic
    paths: tuple[Path | None, ...]
    tables: tuple[tuple[int, ...] | None, ...]
    reads: tuple[TableRead, ...]
    comm_timeline: CommTimeline | None = None


@dataclass(frozen=True, slots=True)
class LaunchMotion:
    """The kernels of one launch, in program order, or the exception from tracing them."""

    problem: Problem | None = None
    kernels: tuple[BlockMotion, ...] = ()


def motions(
    function: Callable[..., Any], *args: Any, chip: str = DEFAULT, **kwargs: Any
) -> tuple[BlockMotion, ...]:
    """Follow the blocks of each kernel that `function(*args, **kwargs)` launches.

    Nothing is lowered, so a block that Mosaic refuses is followed like any other. `args` are
    arrays, or `jax.ShapeDtypeStruct`s if the contents don't matter. Raises ValueError for an
    unknown chip, and what tracing raises.
    """
    from pallascope.kernels import TracedLaunch, for_chip

    target = named(chip)
    with for_chip(target.kind, target.cores):
        launch = TracedLaunch.of(function, args, kwargs)
    return motions_of_launch(launch, args, chip)


def motions_of_launch(
    launch: TracedLaunch, args: Sequence[Any], chip: str, axes: Axes = ()
) -> tuple[BlockMotion, ...]:
    """The same for a launch traced for the chip of this name, or for a mesh of such `axes`."""
    from pallascope.kernels import for_chip

    target = named(chip)
    with for_chip(target.kind, target.cores, axes):
        return tuple(map(follow, launch.kernels(args)))


def follow(kernel: TracedKernel, max_steps: int = MAX_STEPS) -> BlockMotion:
    """Follow the first `max_steps` steps of one kernel, which was traced for a chip."""
    blocks, operands = kernel.block_positions(), kernel.call.operands
    moved_traffic = traffic.traffic(
        kernel.call, blocks.grid, blocks.starts, blocks.unknown, kernel.copies()
    )
    grid = [size for size in blocks.grid if size is not None]
    known = len(grid) == len(blocks.grid)
    steps = math.prod(grid) if known else 0
    rows = zip(operands, blocks.starts, moved_traffic.operands, strict=True)
    tables = [_cells(table) for table in kernel.tables]
    reads = kernel.prefetch_reads(grid, max_steps) if known and tables else ()
    return BlockMotion(
        call=kernel.call,
        labels=distinct_names(operands),
        steps=steps,
        shown=min(steps, max_steps),
        traffic=moved_traffic,
        paths=tuple(_path(*each, max_steps) for each in rows),
        tables=(*tables, *[None] * (len(operands) - len(tables))),
        reads=tuple(
            TableRead(r.operand, r.table, *(((), ()) if r.cells is None else _runs(r.cells)))
            for r in reads
        ),
        comm_timeline=kernel.comm_timeline(),
    )


def _path(
    operand: Operand, starts: Ints | None, row: OperandTraffic, max_steps: int
) -> Path | None:
    """The runs that begin by step `max_steps`; with one more, the last run that is shown ends.

    A block outside of the array is followed, but its bytes aren't counted. A table is one block,
    which is there from the first step on.
    """
    if operand.role is Role.PREFETCH and row.bytes is not None:
        return Path((0,), (0,), (0,) * len(operand.array.shape), (row.bytes,))
    if row.by_hand or starts is None or not len(starts):
        return None
    if row.bytes is None and row.note != OUTSIDE:
        return None
    moved = np.flatnonzero(traffic.block_moves(operand, starts))
    first = np.append(0, moved[:-1] + 1) if operand.role is Role.OUTPUT else moved
    bytes_each = np.zeros(len(starts), np.int64)
    if row.bytes is not None:
        bytes_each = traffic.bytes_per_step(operand, starts)
    kept = first <= max_steps
    where, moved_bytes = starts[first[kept]], bytes_each[moved[kept]]
    place, each = _places(where)
    return Path(
        first=tuple(first[kept].tolist()),
        place=tuple(place.tolist()),
        starts=tuple(where[each].reshape(-1).tolist()),
        sizes=tuple(moved_bytes[each].tolist()),
    )


def _places(starts: Ints) -> tuple[Ints, Ints]:
    """The number of each row's place, in order of first use, and the row of each first use."""
    _, at, inverse = np.unique(starts, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(at)
    number = np.empty(len(at), np.int64)
    number[order] = np.arange(len(at))
    return number[inverse.reshape(-1)], at[order]


def _runs(values: Ints) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The beginnings and the values of the runs of equal values."""
    first = np.append(0, np.flatnonzero(np.diff(values)) + 1)
    return tuple(first.tolist()), tuple(values[first].tolist())


def _cells(table: Any) -> tuple[int, ...] | None:
    if table is None or table.size > MAX_TABLE_CELLS or not np.issubdtype(table.dtype, np.integer):
        return None
    return tuple(table.reshape(-1).tolist())
