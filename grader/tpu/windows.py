"""How large the blocks of one operand are, and what they hold together."""

import math
from typing import Any

import numpy as np

from grader.model import Operand
from grader.tpu import layout
from grader.tpu.tiling import Shape, dtype_bits

Ints = np.ndarray[Any, Any]


def block(operand: Operand) -> Shape:
    return tuple(1 if size is None else size for size in operand.block)


def inside(operand: Operand, starts: Ints) -> Ints:
    """How much of a block lies within the array, in elements: int[steps, rank]."""
    return np.minimum(block(operand), np.array(operand.array.shape, np.int32) - starts)


def sizes(operand: Operand, starts: Ints) -> Ints:
    """How much of a block is moved: Mosaic cuts blocks at the edge, but no Element windows."""
    if operand.element:
        return np.broadcast_to(block(operand), starts.shape)
    return inside(operand, starts)


def stored_each(operand: Operand, sizes: Ints) -> Ints:
    """Bytes of blocks of these sizes, in whole tiles: int64[steps]."""
    bits = dtype_bits(operand.array.dtype)
    tile = layout.tile(operand.array.shape, bits)
    whole = sizes.astype(np.int64)
    if tile:
        whole[:, -len(tile) :] = -(-whole[:, -len(tile) :] // tile) * tile
    return whole.prod(axis=1) * bits // 8


def least(operand: Operand, starts: Ints) -> int:
    """Bytes of everything that is moved at least once."""
    first = _first_of_each(operand, starts)
    size = int(stored_each(operand, sizes(operand, first)).sum())
    return min(size, _covered(operand, first)) if operand.element else size


def _first_of_each(operand: Operand, starts: Ints) -> Ints:
    """The different rows among starts."""
    extent = np.array(operand.array.shape, np.int64) + block(operand)
    strides = np.cumprod([1, *extent][:-1], dtype=np.int64)
    _, first = np.unique(starts.astype(np.int64) @ strides, return_index=True)
    return starts[first]


def _covered(operand: Operand, starts: Ints) -> int:
    """Bytes that windows cover together; they may overlap.

    Counts, tile by tile, windows that begin less windows that have ended, dimension by dimension.
    """
    bits = dtype_bits(operand.array.dtype)
    tile = layout.tile(operand.array.shape, bits)
    units = np.array((*[1] * (starts.shape[1] - len(tile)), *tile))
    begin, end = starts // units, -(-(starts + block(operand)) // units)
    covering = np.zeros(end.max(axis=0, initial=0) + 1, np.int32)
    for corner in np.ndindex(*[2] * starts.shape[1]):
        at = np.where(corner, end, begin)
        np.add.at(covering, tuple(at.T), (-1) ** sum(corner))
    for axis in range(starts.shape[1]):
        np.cumsum(covering, axis=axis, out=covering)
    return int((covering > 0).sum()) * math.prod(units.tolist()) * bits // 8
