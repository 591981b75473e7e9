"""Predictions made by hand: a matmul on a v5e, where a cycle is 2/3 ns and moves 546 bytes."""

from __future__ import annotations

from typing import Any

from pallascope.model import KernelCall, Role
from pallascope.tpu import OnChip, Prediction
from pallascope.tpu.block_sizes import Reuse
from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind
from pallascope.tpu.schedule import (
    OperandDmas,
    Schedule,
    Stall,
    Transfer,
)
from pallascope.tpu.traffic import OperandTraffic, Traffic
from pallascope.tpu.vmem import Allocation, Use, Vmem
from tests.pallascope.support.calls import call, operand

BYTES_PER_CYCLE = 546
SIZE = 2 * 128 * 128  # bytes of a block


def schedule(
    cycles: float = 1000,
    issue: int = 900,
    busy: dict[str, int] | None = None,
    size: int = 0,
    waits: float | None = None,
    spills: int = 0,
    **events: Any,
) -> Schedule:
    """One that moves `size` bytes of x_ref in, and waits for them for all that is not issued."""
    stalled = cycles - issue if waits is None else waits
    moved = (OperandDmas("x_ref", True, size, stalled), OperandDmas("o_ref", False, 0, 0.0))
    found: dict[str, Any] = {"transfers": (), "stalls": (), "turns": (), **events}
    return Schedule(
        cycles=cycles,
        issue=issue,
        busy={"MXU": issue} if busy is None else busy,
        spills=spills,
        moved=moved,
        **found,
    )


def matmul(grid: tuple[int, ...] = (4, 1, 2)) -> KernelCall:
    """Two inputs, an output and scratch."""
    block = (128, 128)
    parts = [
        operand("x_ref", (512, 256), block, Role.INPUT, dtype="bfloat16", axes=(0, 2)),
        operand("y_ref", (256, 128), block, Role.INPUT, dtype="bfloat16", axes=(2, 1)),
        operand("o_ref", (512, 128), block, Role.OUTPUT, dtype="bfloat16", axes=(0, 1)),
        operand("acc_ref", block, block, Role.SCRATCH),
    ]
    return call(*parts, grid=grid)


def rows(kernel: KernelCall, counts: tuple[int, ...] = (8, 8, 4), **of_x: Any) -> Traffic:
    """What the matmul's operands move; `of_x` changes the first."""
    least = (8, 2, 4)
    found: list[OperandTraffic] = []
    for position, one in enumerate(kernel.operands):
        same = (one.name, one.role, one.array, one.block)
        if one.role is Role.SCRATCH:
            found.append(OperandTraffic(*same, vmem=2 * SIZE))
            continue
        count = {"moves": counts[position], "bytes": counts[position] * SIZE}
        whole = {"least": least[position] * SIZE, "stored": least[position] * SIZE}
        changed = of_x if position == 0 else {}
        found.append(OperandTraffic(*same, **{**count, **whole, "vmem": 2 * SIZE, **changed}))
    unknown = tuple(f"{row.name}: {row.note}" for row in found if row.bytes is None)
    return Traffic(kernel.name, kernel.grid, tuple(found), unknown)


def vmem() -> Vmem:
    used = (
        Allocation(Use.WINDOW, "x_ref", "bf16[128,128]", 2, 3 * SIZE),
        Allocation(Use.SCRATCH, "acc_ref", "f32[128,128]", 1, SIZE),
    )
    return Vmem(16 << 20, 4 * SIZE, used)


def prediction(ran: Schedule | None = None, **changed: Any) -> Prediction:
    """The matmul, compiled where it has a schedule."""
    kernel = changed.pop("call", matmul())
    kept = Reuse(axis=2, innermost=2, least=1, most=1)
    given: dict[str, Any] = {
        "chip": "v5e",
        "call": kernel,
        "labels": tuple(one.name for one in kernel.operands),
        "traffic": rows(kernel),
        "reuse": (kept, kept, Reuse(0, 2, 2, 2), None),
        "compiled": ran is not None,
        "vmem": vmem() if ran else None,
        "schedule": ran,
    }
    return Prediction(**{**given, **changed})


def uncompiled() -> OnChip:
    """A launch for which nobody could ask the compiler."""
    return OnChip(None, (prediction(unknown="no libtpu"),))


def refused(wanted: int = 36 << 20) -> Prediction:
    """One that needs more VMEM than there is."""
    text = "it needs more VMEM than it may have"
    held = (Allocation(Use.WINDOW, "x_ref", "bf16[128,128]", 2, wanted),)
    failure = LibtpuRefusal(
        LibtpuRefusalKind.VMEM, text, text, wanted=wanted, limit=16 << 20, allocations=held
    )
    return prediction(failure=failure)


def transfers(*starts: float, operand: str = "x_ref", took: float = 700) -> tuple[Transfer, ...]:
    return tuple(Transfer(operand, True, start, start + took, SIZE) for start in starts)


def stalls(*spans: tuple[float, float]) -> tuple[Stall, ...]:
    return tuple(Stall("x_ref", True, start, end) for start, end in spans)
