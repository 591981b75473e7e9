"""VMEM allocations of a kernel, their rounding, the compiler's report, smaller blocks that fit.

A kernel's VMEM holds windows (its operands' blocks, most of them double-buffered), scratch, and
spilled registers. Sizes are in bytes. Operands share block sizes: `bm` is a dimension of x's block,
of o's and of the accumulator's. A KernelCall doesn't have these names, so equal blocks of equal
dimensions are assumed to share one name.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pallascope.model import (
    ArrayType,
    FirstAccess,
    KernelCall,
    Operand,
    Role,
)
from pallascope.tpu import block_sizes
from pallascope.tpu.block_rules import (
    Block,
    Space,
    dtype_bits,
    violations,
)
from pallascope.tpu.chips import Chip


class Use(enum.Enum):
    """The purpose of an allocation."""

    WINDOW = "window"
    SCRATCH = "scratch"
    SPILL = "spills"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of VMEM. `name` is the operand's if it is known; `size` is for all `buffers`."""

    use: Use
    name: str
    shape: str  # of one buffer, as "f32[512,512]"; "" if there is none
    buffers: int
    size: int


@dataclass(frozen=True, slots=True)
class Vmem:
    """One kernel's VMEM: the limit, the bytes used, and the allocations."""

    limit: int
    used: int
    allocations: tuple[Allocation, ...]

    @property
    def spilled(self) -> int:
        """Bytes of values that didn't fit into registers."""
        return sum(a.size for a in self.allocations if a.use is Use.SPILL)


def read_report(html: str, instruction: str, call: KernelCall, limit: int) -> Vmem | None:
    """The part of libtpu's VMEM report for one HLO instruction; None if there is none."""
    start = html.find("const DATA =")
    if start < 0:
        return None
    text = html[start:].partition("=")[2].lstrip()
    data, _ = json.JSONDecoder().raw_decode(text)
    breakdown = (data.get("hlo_breakdowns") or {}).get(instruction)
    if breakdown is None:
        return Vmem(limit, 0, ())
    allocations = [a for b in breakdown["blocks"] for a in b["allocations"]]
    tagged = [(a.get("tag", ""), a.get("shape", ""), int(a["size"])) for a in allocations]
    used = sum(int(b["block_size"]) for b in breakdown["blocks"])
    return Vmem(limit, used, named_allocations(tagged, call))


_WINDOW = re.compile(
    r"(input|output) window allocation for operator (?:input|output) (\d+)\. "
    r"The window shape is ([^\s,]+\[[\d,]*\])"
)
_SCRATCH = "scratch operand"
#: Allocations by a part of the body, for as long as it runs; `emit_pipeline`'s blocks are such.
SCOPED, _SCOPED = "run_scoped", "scoped memory for "
_BUFFERS = re.compile(r"This allocation has (\d+) buffering levels")


def named_allocations(
    allocations: Sequence[tuple[str, str, int]], call: KernelCall
) -> tuple[Allocation, ...]:
    """Allocations by libtpu's (tag, shape, size), with the names of the operands."""
    scratch = [o for o in call.role(Role.SCRATCH) if in_vmem(o)]
    shapes = [shape for tag, shape, _ in allocations if tag == _SCRATCH]
    # Scratch has no number; it is listed in order, without the buffers that the kernel doesn't use.
    all_listed = shapes == [_shape(o) for o in scratch]
    names = iter(
        [o.name for o in scratch] if all_listed else [_name_by_shape(s, scratch) for s in shapes]
    )
    return tuple(_allocation(tag, shape, size, call, names) for tag, shape, size in allocations)


def _name_by_shape(shape: str, scratch: Sequence[Operand]) -> str:
    """The name of the scratch buffer with this shape, if there is only one."""
    same = [o.name for o in scratch if _shape(o) == shape]
    return same[0] if len(same) == 1 else ""


def _allocation(
    tag: str, shape: str, size: int, call: KernelCall, scratch: Iterator[str]
) -> Allocation:
    if window := _WINDOW.match(tag):
        levels = _BUFFERS.search(tag)
        name = _operand(call, window[1], int(window[2]))
        return Allocation(Use.WINDOW, name, window[3], int(levels[1]) if levels else 1, size)
    if tag == _SCRATCH:
        return Allocation(Use.SCRATCH, next(scratch), shape, 1, size)
    if tag.startswith(_SCOPED):
        return Allocation(Use.SCRATCH, SCOPED, shape, 1, size)
    if tag == "SPILL":
        return Allocation(Use.SPILL, "", "", 1, size)
    return Allocation(Use.OTHER, "", shape, 1, size)


def _operand(call: KernelCall, direction: str, number: int) -> str:
    """The name of a kernel's input or output. Scalar prefetch counts, sizes of the grid don't."""
    inputs = call.role(Role.PREFETCH, Role.INPUT)
    operands = call.role(Role.OUTPUT) if direction == "output" else inputs
    return operands[number].name if number < len(operands) else ""


def footprint(call: KernelCall) -> tuple[Allocation, ...]:
    """Windows and scratch of a kernel from its blocks alone, if the compiler gives no report."""
    return tuple(
        Allocation(
            use=Use.SCRATCH if operand.role is Role.SCRATCH else Use.WINDOW,
            name=operand.name,
            shape=_shape(operand),
            buffers=1 if is_fixed(call, operand) else operand.buffers,
            size=buffered_bytes(call, operand),
        )
        for operand in call.operands
        if in_vmem(operand)
    )


def scoped_buffers(call: KernelCall) -> tuple[Allocation, ...]:
    """The buffers that a kernel's body allocates for its own copies."""
    return tuple(
        Allocation(Use.SCRATCH, SCOPED, _shape_text(array, array.shape), 1, _stored(array))
        for array in call.scoped
    )


def limit_of(call: KernelCall, chip: Chip) -> int:
    """The VMEM that a kernel may take on a chip, in bytes."""
    return min(call.vmem_limit or chip.scoped_vmem, chip.vmem)


def certainly_overflows(call: KernelCall, chip: Chip) -> bool:
    """Whether blocks and buffers alone prove, without the compiler, that a kernel needs too much.

    Blocks count with all of their buffers, as do the buffers of the kernel's own copies. For other
    scratch, the compiler may keep the values in registers and leave the buffer out: it counts
    only against all of the chip's VMEM.
    """
    windows = [o for o in call.operands if o.role is not Role.SCRATCH and in_vmem(o)]
    scratch = [
        o for o in call.role(Role.SCRATCH) if in_vmem(o) and o.first is not FirstAccess.NOTHING
    ]
    scoped = sum(map(_stored, call.scoped))
    certain = (
        sum(_buffered_bytes_exact(call, o) for o in (*windows, *(o for o in scratch if o.copied)))
        + scoped
    )
    unsure = sum(_buffered_bytes_exact(call, o) for o in scratch if not o.copied)
    return certain > limit_of(call, chip) or certain + unsure > chip.vmem


def min_window_bytes(call: KernelCall) -> int:
    """The bytes of one buffer for each operand's block: the least that a kernel needs."""
    operands = (o for o in call.operands if o.role is not Role.SCRATCH and in_vmem(o))
    return sum(block_bytes(operand, operand.block) for operand in operands)


def is_fixed(call: KernelCall, operand: Operand) -> bool:
    """Whether the compiler sees that a block never moves: then it allocates one buffer for it."""
    return all(call.grid[axis] == 1 for axis in operand.axes)


def in_vmem(operand: Operand) -> bool:
    """Whether an operand takes VMEM: no semaphores, no scalar prefetch, nothing that is in HBM."""
    if operand.role is Role.PREFETCH or operand.space not in ("default", "vmem"):
        return False
    try:
        return dtype_bits(operand.array.dtype) > 0
    except ValueError:
        return False


def buffered_bytes(call: KernelCall, operand: Operand) -> int:
    """The VMEM for all buffers of an operand's block, in whole KiB as the compiler allocates it."""
    return -(-_buffered_bytes_exact(call, operand) // 1024) * 1024


def _buffered_bytes_exact(call: KernelCall, operand: Operand) -> int:
    """The VMEM for all buffers of an operand's block, not rounded up."""
    buffers = 1 if is_fixed(call, operand) else operand.buffers
    return block_bytes(operand, operand.block) * buffers


def block_bytes(operand: Operand, block: Block) -> int:
    """The VMEM for one buffer of an operand's block, padded to whole tiles."""
    bits = dtype_bits(operand.array.dtype)
    shape = tuple(1 if size is None else size for size in block)
    tile = block_sizes.tile_shape(operand.array.shape, bits)
    return math.prod(block_sizes.padded(shape, tile)) * bits // 8


def _stored(array: ArrayType) -> int:
    """The VMEM for a whole array."""
    return block_sizes.stored_bytes(array.shape, dtype_bits(array.dtype))


def _shape(operand: Operand) -> str:
    """A block in the compiler's notation: "bf16[512,256]"."""
    return _shape_text(operand.array, operand.block)


def _shape_text(array: ArrayType, block: Block) -> str:
    short = array.dtype.replace("float", "f").replace("int", "s").replace("us", "u")
    sizes: list[Any] = [1 if n is None else n for n in block]
    return f"{short.replace('_', '')}[{','.join(map(str, sizes))}]"


@dataclass(frozen=True, slots=True)
class Fit:
    """A block, or a scratch buffer's shape, that differs from the kernel's own."""

    name: str
    block: Block


@dataclass(frozen=True, slots=True)
class _Cut:
    """A dimension of the arrays and its block size; equal ones count as one."""

    size: int
    whole: int


@dataclass(frozen=True, slots=True)
class _Part:
    """One operand in VMEM; each dimension of its block has a cut, or a fixed size."""

    operand: Operand
    fixed: bool  # the original kernel's block never moves
    along: tuple[_Cut | int | None, ...]

    def block(self, sizes: dict[_Cut, int]) -> Block:
        return tuple(sizes[at] if isinstance(at, _Cut) else at for at in self.along)

    def size(self, sizes: dict[_Cut, int]) -> int:
        """Bytes of all its buffers: a block that never moved needs a second one once it is cut."""
        block = self.block(sizes)
        buffers = self.operand.buffers
        if self.operand.role is Role.SCRATCH:
            buffers = 1
        elif self.fixed:
            buffers = 1 if block == self.operand.block else max(buffers, 2)
        return block_bytes(self.operand, block) * buffers


def smaller_blocks(call: KernelCall, limit: int, requested: int = 0) -> tuple[Fit, ...]:
    """Smaller blocks and scratch that would fit into `limit` bytes; () if none are found.

    The largest block size is halved, or brought to the next legal size below, until all fits.
    `requested` are the bytes that the compiler needs for the present blocks. Anything beyond blocks
    and scratch, such as spills, is assumed to shrink with them.
    """
    parts = list(_parts(call))
    cuts = dict.fromkeys(at for part in parts for at in part.along if isinstance(at, _Cut))
    sizes = {cut: cut.size for cut in cuts}
    own = sum(part.size(sizes) for part in parts)
    max_bytes = limit * min(1.0, own / requested) if requested else limit
    while sum(part.size(sizes) for part in parts) > max_bytes:
        smaller = {cut: n for cut in sizes if (n := _next_smaller_size(cut, parts, sizes))}
        if not smaller:
            return ()
        cut = max(smaller, key=lambda cut: _cut_priority(cut, parts, sizes))
        sizes[cut] = smaller[cut]
    changed = ((part, part.block(sizes)) for part in parts)
    return tuple(Fit(p.operand.name, block) for p, block in changed if block != p.operand.block)


def _parts(call: KernelCall) -> Iterator[_Part]:
    blocks = []
    for operand in (o for o in call.role(Role.OUTPUT, Role.INPUT) if in_vmem(o)):
        dims = zip(operand.block, operand.array.shape, strict=True)
        along = tuple(_Cut(n, whole) if n is not None and n > 1 else n for n, whole in dims)
        blocks.append(_Part(operand, is_fixed(call, operand), along))
    yield from blocks
    for operand in (o for o in call.role(Role.SCRATCH) if in_vmem(o)):
        yield _Part(operand, True, _scratch_dims(operand, blocks))


def _scratch_dims(scratch: Operand, blocks: list[_Part]) -> tuple[_Cut | int | None, ...]:
    """The cuts of a scratch buffer's shape: those of a block of its shape, otherwise by size."""
    for part in blocks:
        along = tuple(at for at in part.along if at is not None)
        if tuple(at.size if isinstance(at, _Cut) else at for at in along) == scratch.block:
            return along
    cuts = {at for part in blocks for at in part.along if isinstance(at, _Cut)}

    def cut_of_size(size: int | None) -> _Cut | int | None:
        same = [cut for cut in cuts if cut.size == size]
        return same[0] if len(same) == 1 else size

    return tuple(map(cut_of_size, scratch.block))


def _next_smaller_size(cut: _Cut, parts: list[_Part], sizes: dict[_Cut, int]) -> int:
    """The next legal size of at most half, ragged only if the present one is; 0 if none."""
    even = cut.whole % cut.size == 0
    for size in range(sizes[cut] // 2, 0, -1):
        if even and cut.whole % size:
            continue
        if all(_is_legal(part, {**sizes, cut: size}) for part in parts if cut in part.along):
            return size
    return 0


def _is_legal(part: _Part, sizes: dict[_Cut, int]) -> bool:
    operand = part.operand
    if operand.role is Role.SCRATCH:
        return True
    space = Space.of(None if operand.space == "default" else operand.space)
    bits = dtype_bits(operand.array.dtype)
    return not violations(part.block(sizes), operand.array.shape, bits, space, moves=True)


def _cut_priority(
    cut: _Cut, parts: list[_Part], sizes: dict[_Cut, int]
) -> tuple[bool, bool, bool, int, int]:
    """The order of cuts: of the dimensions that are cut already, the one with the largest blocks.

    Of the whole dimensions, one of the outputs, since cutting another makes the kernel add up over
    grid steps; preferably not the one along the lanes.
    """
    using = [part for part in parts if cut in part.along]
    is_cut = cut.size < cut.whole
    outputs = any(part.operand.role is Role.OUTPUT for part in using)
    rows = any(cut in part.along[:-1] for part in using)
    taken = sum(part.size(sizes) for part in using)
    return is_cut, is_cut or outputs, is_cut or rows, sizes[cut], taken
