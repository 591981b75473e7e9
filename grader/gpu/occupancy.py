"""How many blocks of a kernel a multiprocessor holds at once.

By the formula of CUDA's Occupancy Calculator (cuda_occupancy.h) for compute capability 9.0 and
10.0: blocks by warps, by registers and by shared memory, and the least of these. Registers are
handed out per warp in units of 256, each quarter of the multiprocessor from its own; shared memory
in units of 128 bytes, and 1 KiB of each block goes to CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.gpu.chips import Chip


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps on one multiprocessor, what bounds them, and the share of its warps."""

    blocks: int
    warps: int
    bound: str
    share: float


def occupancy(chip: Chip, threads: int, registers: int, shared: int) -> Occupancy:
    """Of a kernel with this many threads a block, registers a thread, shared bytes a block.

    0 blocks mean that it can't be launched. Raises ValueError where a block has no threads.
    """
    if threads < 1:
        raise ValueError(f"a block has at least one thread, not {threads}")
    warps = -(-threads // 32)
    by = {
        "warps": chip.warps // warps if threads <= chip.threads_of_block else 0,
        "registers": _warps_by_registers(chip, registers) // warps,
        "shared memory": _blocks_by_shared(chip, shared),
        "blocks": chip.blocks,
    }
    blocks = min(by.values())
    bound = " and ".join(what for what, most in by.items() if most == blocks)
    return Occupancy(blocks, blocks * warps, bound, blocks * warps / chip.warps)


def _warps_by_registers(chip: Chip, registers: int) -> int:
    if registers > chip.registers_of_thread:
        return 0
    of_warp = max(_up(registers * 32, chip.register_unit), chip.register_unit)
    return chip.registers // chip.parts // of_warp * chip.parts


def _blocks_by_shared(chip: Chip, shared: int) -> int:
    if shared > chip.shared_of_block:
        return 0
    return chip.shared // _up(shared + chip.shared_reserved, chip.shared_unit)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
