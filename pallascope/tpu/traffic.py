"""Bytes that a kernel moves between HBM and VMEM.

Before each grid step the pipeline fetches the input blocks whose place differs from the previous
step's. After each step it writes back the output blocks whose place differs on the next step; at
the end, all of them. Blocks that stay cost nothing. Only the part of a block inside the array
moves, in whole tiles (`block_sizes`). Scalar prefetch is copied to SMEM once. A kernel's manual
DMAs are counted if its trace has their sizes and repetitions, at each end that is an operand in
HBM: in whole tiles, or in rows of a tile if they are fewer.

Equal, operand by operand, to the DMAs that libtpu compiles for v5e, in 112 cases of the basics'
solutions and 130 random block specs (jax 0.10.2 and 0.12.0.1, libtpu 0.0.51 and 0.0.50.1).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pallascope.model import (
    ArrayType,
    KernelCall,
    Operand,
    Role,
)
from pallascope.tpu import block_sizes
from pallascope.tpu.block_rules import Space, dtype_bits
from pallascope.tpu.vmem import buffered_bytes

if TYPE_CHECKING:
    from pallascope.kernels.manual_dma import Dma, Dmas

Ints = np.ndarray[Any, Any]

BY_THE_KERNEL = "the kernel copies it itself"
NO_DMA = "a single element is passed with the launch, without a DMA"
OUTSIDE = "on some step its block lies outside of the array"

_VMEM = (Space.DEFAULT, Space.VMEM)
_HBM = (Space.ANY, Space.HBM)


@dataclass(frozen=True, slots=True)
class OperandTraffic:
    """The traffic of one operand. Bytes include the padding of tiles.

    `moves` is the number of block moves and `bytes` their bytes in HBM, of which `padding` belong
    to no element. `least` are the bytes if each distinct block moved once. The three counts are
    None if unknown, and `note` is the reason. `vmem` are the bytes of all the block's buffers.
    """

    name: str
    role: Role
    array: ArrayType
    block: tuple[int | None, ...]
    moves: int | None = 0
    bytes: int | None = 0
    written: int = 0  # of these bytes, those that go to HBM
    padding: int = 0
    least: int | None = 0
    stored: int = 0  # bytes of the whole array
    vmem: int = 0
    note: str = ""

    @property
    def by_hand(self) -> bool:
        """Whether the kernel copies it by manual DMA; then it has no blocks."""
        return self.note == BY_THE_KERNEL

    @property
    def refetch(self) -> float | None:
        """The number of times that the operand is moved: 1.0 is ideal. None if unknown."""
        return self.bytes / self.least if self.bytes is not None and self.least else None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of one run of a kernel, on all of its cores.

    Sums are over known operands; `unknown` names the others, with the reason.
    """

    kernel: str
    grid: tuple[int | None, ...]
    operands: tuple[OperandTraffic, ...]
    unknown: tuple[str, ...]

    @property
    def read(self) -> int:
        """Bytes from HBM."""
        return self.bytes - self.written

    @property
    def written(self) -> int:
        """Bytes to HBM."""
        return sum(o.written for o in self.operands)

    @property
    def bytes(self) -> int:
        """Bytes from and to HBM."""
        return sum(o.bytes or 0 for o in self.operands)

    @property
    def least(self) -> int:
        """Bytes if each distinct block were moved once."""
        return sum(o.least or 0 for o in self.operands)

    @property
    def padding(self) -> int:
        """Bytes of padding moved."""
        return sum(o.padding for o in self.operands)

    @property
    def vmem(self) -> int:
        """Bytes of VMEM for blocks and scratch, without the compiler's spills."""
        return sum(o.vmem for o in self.operands)


def traffic(
    call: KernelCall,
    grid: tuple[int | None, ...],
    starts: Sequence[Ints | None],
    reasons: Sequence[str] = (),
    copies: Dmas | None = None,
) -> Traffic:
    """Count the bytes that a kernel moves.

    `grid`, `starts` and `reasons` come from `TracedKernel.block_positions()`, and `copies` from
    `TracedKernel.copies()`; without them, the bytes of manual DMA are unknown.

    `starts` are int32[steps, rank] in elements, or None with the reason in `reasons`. Both align
    with `call.operands`.
    """
    notes = reasons or [""] * len(call.operands)
    rows = [_row(call, *pair) for pair in zip(call.operands, starts, notes, strict=True)]
    if copies and None not in grid:
        steps = math.prod(n or 0 for n in grid) if copies.each_step else 1
        rows = [
            _with_manual_dma(row, known, steps) if row.by_hand and known is not None else row
            for row, known in zip(rows, map(copies.of, range(len(rows))), strict=True)
        ]
    details = copies.unknown if copies else [""] * len(rows)
    unknown = tuple(
        f"{row.name}: {row.note}" + (f" ({detail})" if detail else "")
        for row, detail in zip(rows, details, strict=True)
        if row.bytes is None
    )
    return Traffic(call.name, grid, tuple(rows), unknown)


def block_moves(operand: Operand, starts: Ints) -> Ints:
    """The grid steps on which a block is moved: bool[steps].

    An input block is fetched before that step, an output block is written back after it.
    """
    moved = np.ones(len(starts), bool)
    changes = (starts[1:] != starts[:-1]).any(axis=1)
    if operand.role is Role.OUTPUT:
        moved[:-1] = changes
    else:
        moved[1:] = changes
    return moved


def bytes_per_step(operand: Operand, starts: Ints) -> Ints:
    """The bytes moved on each grid step, with padding: int64[steps].

    Raises ValueError for a dtype of unknown width.
    """
    moved = block_moves(operand, starts)
    result = np.zeros(len(starts), np.int64)
    if not _is_single_element(operand):
        result[moved] = block_sizes.stored_bytes_per_step(
            operand, block_sizes.sizes(operand, starts[moved])
        )
    return result


def _row(call: KernelCall, operand: Operand, starts: Ints | None, reason: str) -> OperandTraffic:
    space = _space(operand.space)
    identity = (operand.name, operand.role, operand.array, operand.block)
    blocked = operand.role in (Role.INPUT, Role.OUTPUT)

    def unknown(why: str, vmem: int = 0) -> OperandTraffic:
        return OperandTraffic(*identity, moves=None, bytes=None, least=None, vmem=vmem, note=why)

    if space not in (*_VMEM, Space.SMEM):
        if not (blocked or space in _HBM):
            return OperandTraffic(*identity)
        return dataclasses.replace(unknown(BY_THE_KERNEL), stored=_stored(operand.array))
    try:
        bits = dtype_bits(operand.array.dtype)
        stored = block_sizes.stored_bytes(operand.array.shape, bits)
        vmem = buffered_bytes(call, operand) if space in _VMEM else 0
    except ValueError as error:
        return unknown(str(error))
    if _is_single_element(operand):
        return OperandTraffic(*identity, stored=stored, vmem=vmem, note=NO_DMA)
    if operand.role is Role.SCRATCH:
        return OperandTraffic(*identity, vmem=vmem)
    if operand.role is Role.PREFETCH:
        padding = stored - math.prod(operand.array.shape) * bits // 8
        return OperandTraffic(
            *identity, moves=1, bytes=stored, padding=padding, least=stored, stored=stored
        )
    if starts is None:
        return unknown(reason, vmem)
    sizes = block_sizes.sizes(operand, starts)
    if (starts < 0).any() or (sizes <= 0).any():
        return unknown(OUTSIDE, vmem)
    moved = block_moves(operand, starts)
    size = int(block_sizes.stored_bytes_per_step(operand, sizes[moved]).sum())
    elements = int(
        np.prod(block_sizes.size_inside(operand, starts[moved]), axis=1, dtype=np.int64).sum()
    )
    return OperandTraffic(
        *identity,
        moves=int(moved.sum()),
        bytes=size,
        written=size if operand.role is Role.OUTPUT else 0,
        padding=size - elements * bits // 8,
        least=block_sizes.distinct_block_bytes(operand, starts[moved]),
        stored=stored,
        vmem=vmem,
    )


def _with_manual_dma(row: OperandTraffic, copies: Sequence[Dma], steps: int) -> OperandTraffic:
    """The traffic of an operand that the kernel copies by manual DMA, over `steps` grid steps."""
    try:
        bits = dtype_bits(row.array.dtype)
    except ValueError:
        return row
    sizes = [
        (c, block_sizes.copied_bytes(c.extent, row.array.shape, bits) * c.times * steps)
        for c in copies
    ]
    size = sum(taken for _, taken in sizes)
    elements = sum(math.prod(c.extent) * c.times for c in copies) * steps
    return dataclasses.replace(
        row,
        moves=sum(c.times for c in copies) * steps,
        bytes=size,
        written=sum(taken for c, taken in sizes if not c.inward),
        padding=size - elements * bits // 8,
        least=min(size, row.stored),
    )


def _stored(array: ArrayType) -> int:
    """Bytes of a whole array with padding; 0 if its dtype's width is unknown."""
    try:
        return block_sizes.stored_bytes(array.shape, dtype_bits(array.dtype))
    except ValueError:
        return 0


def _space(name: str) -> Space | None:
    try:
        return Space.of(name)
    except ValueError:
        return None


def _is_single_element(operand: Operand) -> bool:
    """Whether an operand is a single element, which XLA passes with the launch, without a DMA."""
    incoming = operand.role in (Role.INPUT, Role.PREFETCH)
    return incoming and math.prod(operand.array.shape) == 1
