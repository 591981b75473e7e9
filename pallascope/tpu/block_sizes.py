"""Tiles and block sizes in memory, padding to tiles, out-of-bounds blocks, overlapping windows.

Arrays in HBM and VMEM are tiled, and the last tiles are padded. A block has whole tiles, so a
column of 4096 float32 numbers, shape (4096, 1), is 2 MiB of traffic: each number takes a row of 128
lanes.

Source: the layouts of kernels' operands, and the sizes of their DMAs, from libtpu 0.0.50 and
0.0.51, which agree on v4, v5e, v5p, v6e and tpu7x. Where such a layout has larger tiles (8-bit
arrays whose number of rows is a multiple of 32), no dimension is padded further. Shapes are in
elements. `bits` is `block_rules.dtype_bits` of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pallascope.model import KernelCall, Operand
from pallascope.tpu.block_rules import (
    LANES,
    SUBLANES,
    Shape,
    dtype_bits,
    native_tile,
)


def tile_shape(shape: Shape, bits: int) -> Shape:
    """The multiples to which an array's last two dimensions (or its only one) are padded.

    (8, 128) for 8 rows or more. Fewer rows take the next power of two, but at least fill a 32-bit
    lane: (4, 128) for 3 rows, (1, 128) for one row of float32 and (2, 128) for one of bfloat16. An
    array of rank 1 is padded to 128 lanes of 32 bits. Raises ValueError as `native_tile` does.
    """
    packed = native_tile(bits)[0] // SUBLANES  # elements that share a lane
    if len(shape) < 2:
        return (LANES * packed,) * len(shape)
    rows = 1 << max(shape[-2] - 1, 0).bit_length()
    return max(packed, min(rows, SUBLANES)), LANES


def padded(shape: Shape, tile: Shape) -> Shape:
    """A shape with its last dimensions rounded up to whole tiles."""
    kept = len(shape) - len(tile)
    whole = (-(-n // t) * t for n, t in zip(shape[kept:], tile, strict=True))
    return (*shape[:kept], *whole)


def stored_bytes(shape: Shape, bits: int) -> int:
    """The size of an array in HBM or VMEM, with padding."""
    return math.prod(padded(shape, tile_shape(shape, bits))) * bits // 8


def copied_bytes(extent: Shape, shape: Shape, bits: int) -> int:
    """The bytes that a DMA of a part of an array moves; `extent` is the part's shape.

    Along the last dimension a DMA moves whole tiles. Along the one before, it moves the requested
    rows, and others only if they share a 32-bit lane with one of these. A DMA of all rows moves
    the padding behind them too.
    """
    rows, *rest = tile_shape(shape, bits)
    if rest and extent[-2] < shape[-2]:
        rows = native_tile(bits)[0] // SUBLANES
    return math.prod(padded(extent, (rows, *rest))) * bits // 8


def describe_padding(shape: Shape, bits: int) -> str:
    """A phrase for the padded dimensions of an array; "" if none is padded.

    "its last dimension, 1, is padded to 128"
    """
    last = tile_shape(shape, bits)
    names = ("second-to-last dimension", "last dimension")[2 - len(last) :]
    sizes = shape[len(shape) - len(last) :], padded(shape, last)[len(shape) - len(last) :]
    parts = [
        f"its {name}, {size}, is padded to {whole}"
        for name, size, whole in zip(names, *sizes, strict=True)
        if size != whole
    ]
    return " and ".join(parts)


Ints = np.ndarray[Any, Any]


def block(operand: Operand) -> Shape:
    return tuple(1 if size is None else size for size in operand.block)


def size_inside(operand: Operand, starts: Ints) -> Ints:
    """The part of a block within the array, in elements: int[steps, rank]."""
    return np.minimum(block(operand), np.array(operand.array.shape, np.int32) - starts)


def sizes(operand: Operand, starts: Ints) -> Ints:
    """The part of a block that moves. Mosaic cuts blocks at the edge, but not Element windows."""
    if operand.element:
        return np.broadcast_to(block(operand), starts.shape)
    return size_inside(operand, starts)


def stored_bytes_per_step(operand: Operand, sizes: Ints) -> Ints:
    """Bytes of blocks of these sizes, in whole tiles: int64[steps]."""
    bits = dtype_bits(operand.array.dtype)
    tile = tile_shape(operand.array.shape, bits)
    whole = sizes.astype(np.int64)
    if tile:
        whole[:, -len(tile) :] = -(-whole[:, -len(tile) :] // tile) * tile
    return whole.prod(axis=1) * bits // 8


def distinct_block_bytes(operand: Operand, starts: Ints) -> int:
    """The bytes of everything that moves at least once."""
    first = _first_of_each(operand, starts)
    size = int(stored_bytes_per_step(operand, sizes(operand, first)).sum())
    return min(size, _covered_bytes(operand, first)) if operand.element else size


def _first_of_each(operand: Operand, starts: Ints) -> Ints:
    """The distinct rows of `starts`."""
    extent = np.array(operand.array.shape, np.int64) + block(operand)
    strides = np.cumprod([1, *extent][:-1], dtype=np.int64)
    _, first = np.unique(starts.astype(np.int64) @ strides, return_index=True)
    return starts[first]


def _covered_bytes(operand: Operand, starts: Ints) -> int:
    """The bytes in the union of windows that may overlap.

    For each tile, counts the windows that have begun and not ended, one dimension at a time.
    """
    bits = dtype_bits(operand.array.dtype)
    tile = tile_shape(operand.array.shape, bits)
    units = np.array((*[1] * (starts.shape[1] - len(tile)), *tile))
    begin, end = starts // units, -(-(starts + block(operand)) // units)
    covering = np.zeros(end.max(axis=0, initial=0) + 1, np.int32)
    for corner in np.ndindex(*[2] * starts.shape[1]):
        at = np.where(corner, end, begin)
        np.add.at(covering, tuple(at.T), (-1) ** sum(corner))
    for axis in range(starts.shape[1]):
        np.cumsum(covering, axis=axis, out=covering)
    return int((covering > 0).sum()) * math.prod(units.tolist()) * bits // 8


Indices = np.ndarray[Any, Any]


def blocks_outside(
    call: KernelCall, labels: Sequence[str], grid: Sequence[int], starts: Sequence[Indices | None]
) -> tuple[str, ...]:
    """A sentence for each operand with a block outside of its array. `starts`: `BlockPositions`.

    A block that only ends past the array's edge is cut off there, but an Element window isn't.
    """
    return tuple(_sentences(call, labels, grid, starts))


def _sentences(
    call: KernelCall, labels: Sequence[str], grid: Sequence[int], starts: Sequence[Indices | None]
) -> Iterator[str]:
    for operand, label, operand_starts in zip(call.operands, labels, starts, strict=True):
        if operand_starts is None or not operand_starts.size:
            continue
        outside_steps = np.flatnonzero(_outside(operand, operand_starts))
        if not len(outside_steps):
            continue
        first = int(outside_steps[0])
        step = ", ".join(str(int(n)) for n in np.unravel_index(first, grid)) if grid else "0"
        place = ", ".join(map(str, operand_starts[first].tolist()))
        size = ", ".join(map(str, block(operand)))
        steps = (
            f"{len(outside_steps):,} of {len(operand_starts):,} grid steps"
            if len(operand_starts) > 1
            else "its one step"
        )
        yield (
            f"{label}: on {steps}, first on ({step}), its block is not within the array: it is the "
            f"({size}) elements from ({place}) on, and the array is {operand.array}. A TPU does "
            "not check that, so this is the time of a wrong kernel"
        )


def _outside(operand: Operand, starts: Indices) -> Indices:
    """The steps on which a block isn't within its array: bool[steps]."""
    inside = size_inside(operand, starts)
    least = np.array(block(operand)) if operand.element else 1
    return np.any((starts < 0) | (inside < least), axis=1)


@dataclass(frozen=True, slots=True)
class Reuse:
    """The reuse of one operand's block over the grid.

    `axis` is the innermost grid axis along which the block changes; None if it never changes. The
    block is kept for `least` to `most` consecutive steps. `innermost` is the last grid axis with
    more than one step.
    """

    axis: int | None
    innermost: int | None
    least: int
    most: int

    @property
    def kept(self) -> str:
        """The number of steps for which a block stays: "8 steps"."""
        many = f"{self.least} to {self.most}" if self.least < self.most else f"{self.most}"
        return f"{many} step{'s' * (self.most != 1)}"

    def __str__(self) -> str:
        if self.axis is None:
            return "its block never changes"
        if self.most == 1 and self.axis == self.innermost:
            return f"its index map changes on every step of the innermost axis (axis {self.axis})"
        return f"its index map changes along axis {self.axis}; its block is kept for {self.kept}"


def reuse(grid: Sequence[int], starts: np.ndarray[Any, Any]) -> Reuse:
    """The reuse of an operand's block. `starts` are int32[steps, rank], as in `Kernel.blocks`."""
    wide = [axis for axis, size in enumerate(grid) if size > 1]
    rank = starts.shape[1]
    per_axis = starts.reshape(*grid, rank)
    changing = [a for a in wide if (np.diff(per_axis, axis=a) != 0).any()]
    edges = np.flatnonzero((np.diff(starts, axis=0) != 0).any(axis=1)) + 1
    runs = np.diff(edges, prepend=0, append=len(starts))
    return Reuse(
        axis=changing[-1] if changing else None,
        innermost=wide[-1] if wide else None,
        least=int(runs.min()),
        most=int(runs.max()),
    )
