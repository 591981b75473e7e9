"""Blocks that lie outside of their array on some grid step: nothing on a TPU checks that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grader.model import KernelCall, Operand
from grader.tpu import windows

Ints = np.ndarray[Any, Any]


def blocks_outside(
    call: KernelCall, labels: Sequence[str], grid: Sequence[int], starts: Sequence[Ints | None]
) -> tuple[str, ...]:
    """A sentence for each operand with such a block. `starts` as in `BlockPositions`.

    A block that only ends past the array's edge is cut off there, but an Element window is not.
    """
    return tuple(_sentences(call, labels, grid, starts))


def _sentences(
    call: KernelCall, labels: Sequence[str], grid: Sequence[int], starts: Sequence[Ints | None]
) -> Iterator[str]:
    for operand, label, each in zip(call.operands, labels, starts, strict=True):
        if each is None or not each.size:
            continue
        wrong = np.flatnonzero(_outside(operand, each))
        if not len(wrong):
            continue
        first = int(wrong[0])
        step = ", ".join(str(int(n)) for n in np.unravel_index(first, grid)) if grid else "0"
        place = ", ".join(map(str, each[first].tolist()))
        size = ", ".join(map(str, windows.block(operand)))
        many = f"{len(wrong):,} of {len(each):,} grid steps" if len(each) > 1 else "its one step"
        yield (
            f"{label}: on {many}, first on ({step}), its block is not within the array: it is the "
            f"({size}) elements from ({place}) on, and the array is {operand.array}. A TPU does "
            "not check that, so the time is of a kernel that is wrong"
        )


def _outside(operand: Operand, starts: Ints) -> Ints:
    """On which steps a block is not within its array: bool[steps]."""
    inside = windows.inside(operand, starts)
    least = np.array(windows.block(operand)) if operand.element else 1
    return np.any((starts < 0) | (inside < least), axis=1)
