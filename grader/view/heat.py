"""Wrong elements of a result, block by block and at a resolution that can be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.checks.compare import Comparison
from grader.checks.prose import number
from grader.view.document import Block, Wrong

#: Cells along each of an array's last two dimensions; more only where there are more blocks.
MOST = 64
#: Wrong blocks that are told one by one.
MOST_BLOCKS = 400

Ints = np.ndarray[Any, Any]


def wrong_of(result: Comparison) -> Wrong:
    """The wrong elements of one result."""
    shape, grid = result.actual.shape, result.grid
    drawn = range(max(len(shape) - 2, 0), len(shape))
    pairs = [
        _cells(n, block, count, MOST if axis in drawn else n)
        for axis, (n, block, count) in enumerate(zip(shape, result.block, grid, strict=True))
    ]
    index = [cell for _, cell in pairs]
    cells = tuple(int(cell[-1]) + 1 if len(cell) else 0 for cell in index)
    counts = _counted(np.ones(shape, bool), index, cells)
    wrong = _counted(result.wrong, index, cells)
    missing = _counted(result.wrong & np.isnan(result.actual), index, cells)
    share = -(-100 * wrong // np.maximum(counts, 1))
    return Wrong(
        name=result.name,
        shape=shape,
        wrong=int(result.wrong.sum()),
        wrong_blocks=len(result.wrong_blocks),
        of_blocks=len(result.indices()),
        block=result.block,
        size=tuple(size for size, _ in pairs),
        cells=cells,
        share=tuple(share.reshape(-1).tolist()),
        nan=tuple(np.flatnonzero(missing).tolist()),
        blocks=tuple(_block(result, at) for at in result.wrong_blocks[:MOST_BLOCKS]),
    )


def _cells(n: int, block: int, blocks: int, most: int) -> tuple[int, Ints]:
    """A cell's size along one dimension, and each element's cell: cells end where blocks end."""
    per_block = max(1, most // max(blocks, 1))
    size = -(-block // min(per_block, block))
    each = -(-block // size)
    at = np.arange(n)
    return size, at // block * each + at % block // size


def _counted(flags: Ints, index: list[Ints], cells: tuple[int, ...]) -> Ints:
    """How many elements of each cell are flagged."""
    found = flags.astype(np.int64)
    for axis, cell in enumerate(index):
        moved = np.moveaxis(found, axis, 0)
        summed = np.zeros((cells[axis], *moved.shape[1:]), np.int64)
        np.add.at(summed, cell, moved)
        found = np.moveaxis(summed, 0, axis)
    return found


def _block(result: Comparison, at: tuple[int, ...]) -> Block:
    part = result.part(at)
    wrong = result.wrong[part]
    with np.errstate(invalid="ignore"):
        error = np.abs(result.actual[part] - result.expected[part])[wrong]
    worst = number(float(error.max())) if np.isfinite(error).all() else "not a number"
    return Block(at, int(wrong.sum()), int(wrong.size), worst)
