"""What takes a kernel's VMEM, by the compiler's report, and which block sizes would fit.

A kernel's VMEM holds windows (the blocks of its operands, most of them twice, so that the next
block moves in while the present one is used), scratch, and spills: values for which there were no
registers left. Sizes are in bytes.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.model import ArrayType, KernelCall, Operand, Role, Touch
from grader.tpu import layout
from grader.tpu.chips import Chip
from grader.tpu.tiling import Block, dtype_bits


class Use(enum.Enum):
    """What an allocation is for."""

    WINDOW = "window"
    SCRATCH = "scratch"
    SPILL = "spills"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of VMEM. `name` is the operand's where it is known; `size` is of all `buffers`."""

    use: Use
    name: str
    shape: str  # of one buffer, as "f32[512,512]"; "" where there is none
    buffers: int
    size: int


@dataclass(frozen=True, slots=True)
class Vmem:
    """One kernel's VMEM: what it may have, what it has, and what for."""

    limit: int
    used: int
    allocations: tuple[Allocation, ...]

    @property
    def spilled(self) -> int:
        """Bytes of values that did not fit into registers."""
        return sum(a.size for a in self.allocations if a.use is Use.SPILL)


def read_report(html: str, instruction: str, call: KernelCall, limit: int) -> Vmem | None:
    """The part of libtpu's VMEM report that is about one HLO instruction; None if there is none."""
    start = html.find("const DATA =")
    if start < 0:
        return None
    text = html[start:].partition("=")[2].lstrip()
    data, _ = json.JSONDecoder().raw_decode(text)
    breakdown = (data.get("hlo_breakdowns") or {}).get(instruction)
    if breakdown is None:
        return Vmem(limit, 0, ())
    listed = [a for b in breakdown["blocks"] for a in b["allocations"]]
    found = [(a.get("tag", ""), a.get("shape", ""), int(a["size"])) for a in listed]
    used = sum(int(b["block_size"]) for b in breakdown["blocks"])
    return Vmem(limit, used, named_allocations(found, call))


_WINDOW = re.compile(
    r"(input|output) window allocation for operator (?:input|output) (\d+)\. "
    r"The window shape is ([^\s,]+\[[\d,]*\])"
)
_SCRATCH = "scratch operand"
#: What a body allocates for as long as a part of it runs; `emit_pipeline` does so for its blocks.
SCOPED, _SCOPED = "run_scoped", "scoped memory for "
_BUFFERS = re.compile(r"This allocation has (\d+) buffering levels")


def named_allocations(
    found: Sequence[tuple[str, str, int]], call: KernelCall
) -> tuple[Allocation, ...]:
    """Allocations by (tag, shape, size) as libtpu words them, with the names of the operands."""
    scratch = [o for o in call.role(Role.SCRATCH) if in_vmem(o)]
    used = [shape for tag, shape, _ in found if tag == _SCRATCH]
    # Scratch has no number; it is listed in order, without what the kernel does not use.
    everything = used == [_shape(o) for o in scratch]
    names = iter([o.name for o in scratch] if everything else [_only(s, scratch) for s in used])
    return tuple(_allocation(tag, shape, size, call, names) for tag, shape, size in found)


def _only(shape: str, scratch: Sequence[Operand]) -> str:
    """The name of the scratch buffer of a shape, if there is but one."""
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
    """The name of a kernel's input or output. Scalar prefetch counts, sizes of the grid do not."""
    inputs = call.role(Role.PREFETCH, Role.INPUT)
    operands = call.role(Role.OUTPUT) if direction == "output" else inputs
    return operands[number].name if number < len(operands) else ""


def footprint(call: KernelCall) -> tuple[Allocation, ...]:
    """Windows and scratch of a kernel by its blocks alone, where the compiler gives no report."""
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
    """The buffers that a kernel's body makes for its own copies."""
    return tuple(
        Allocation(Use.SCRATCH, SCOPED, _in_words(array, array.shape), 1, _stored(array))
        for array in call.scoped
    )


def limit_of(call: KernelCall, chip: Chip) -> int:
    """The VMEM that a kernel may take on a chip, in bytes."""
    return min(call.vmem_limit or chip.scoped_vmem, chip.vmem)


def overflows(call: KernelCall, chip: Chip) -> bool:
    """Whether blocks and buffers alone show, without the compiler, that a kernel can't have them.

    Blocks count with all of their buffers, and so does what the kernel copies to or from by itself.
    Of other scratch the compiler may keep values in registers, and leave the scratch out: it counts
    only where all together is more than the chip has.
    """
    windows = [o for o in call.operands if o.role is not Role.SCRATCH and in_vmem(o)]
    scratch = [o for o in call.role(Role.SCRATCH) if in_vmem(o) and o.first is not Touch.NOTHING]
    scoped = sum(map(_stored, call.scoped))
    certain = sum(_held(call, o) for o in (*windows, *(o for o in scratch if o.copied))) + scoped
    unsure = sum(_held(call, o) for o in scratch if not o.copied)
    return certain > limit_of(call, chip) or certain + unsure > chip.vmem


def least_windows(call: KernelCall) -> int:
    """What one copy of each operand's block takes: less than this, no kernel gets along with."""
    operands = (o for o in call.operands if o.role is not Role.SCRATCH and in_vmem(o))
    return sum(block_bytes(operand, operand.block) for operand in operands)


def is_fixed(call: KernelCall, operand: Operand) -> bool:
    """Whether the compiler sees that a block never moves: then it keeps one copy of it."""
    return all(call.grid[axis] == 1 for axis in operand.axes)


def in_vmem(operand: Operand) -> bool:
    """Whether an operand takes VMEM: no semaphores, no scalar prefetch, nothing left in HBM."""
    if operand.role is Role.PREFETCH or operand.space not in ("default", "vmem"):
        return False
    try:
        return dtype_bits(operand.array.dtype) > 0
    except ValueError:
        return False


def buffered_bytes(call: KernelCall, operand: Operand) -> int:
    """What all buffers of an operand's block take in VMEM, in whole KiB as the compiler has it."""
    return -(-_held(call, operand) // 1024) * 1024


def _held(call: KernelCall, operand: Operand) -> int:
    """The same to the byte."""
    buffers = 1 if is_fixed(call, operand) else operand.buffers
    return block_bytes(operand, operand.block) * buffers


def block_bytes(operand: Operand, block: Block) -> int:
    """What one buffer of a block of an operand takes in VMEM, padded to whole tiles."""
    bits = dtype_bits(operand.array.dtype)
    shape = tuple(1 if size is None else size for size in block)
    tile = layout.tile(operand.array.shape, bits)
    return math.prod(layout.padded(shape, tile)) * bits // 8


def _stored(array: ArrayType) -> int:
    """What a whole array takes in VMEM."""
    return layout.stored_bytes(array.shape, dtype_bits(array.dtype))


def _shape(operand: Operand) -> str:
    """A block in the compiler's words: "bf16[512,256]"."""
    return _in_words(operand.array, operand.block)


def _in_words(array: ArrayType, block: Block) -> str:
    short = array.dtype.replace("float", "f").replace("int", "s").replace("us", "u")
    sizes: list[Any] = [1 if n is None else n for n in block]
    return f"{short.replace('_', '')}[{','.join(map(str, sizes))}]"
