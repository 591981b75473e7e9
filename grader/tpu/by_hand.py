"""What a kernel copies by itself, as the compiler's schedule has it.

A trace tells what each DMA moves, but not how often it runs where that depends on the step, on
lengths in SMEM or on a pipeline's own bookkeeping. The schedule has executed all of that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from grader.tpu.schedule import Moved, Schedule
from grader.tpu.traffic import OperandTraffic, Traffic


def as_scheduled(traffic: Traffic, labels: Sequence[str], schedule: Schedule) -> Traffic:
    """The same with the schedule's counts for the operands that the kernel copies by itself.

    `labels` align with the operands, and are the schedule's names for them. The schedule is that of
    a whole run: not of one core's part.
    """
    rows = tuple(
        _counted(row, [one for one in schedule.moved if one.operand == label])
        for row, label in zip(traffic.operands, labels, strict=True)
    )
    reasons = iter(traffic.unknown)
    told = [(row, next(reasons)) for row in traffic.operands if row.bytes is None]
    unknown = tuple(why for row, why in told if not row.by_hand)
    return dataclasses.replace(traffic, operands=rows, unknown=unknown)


def _counted(row: OperandTraffic, moved: Sequence[Moved]) -> OperandTraffic:
    """One operand. Where the trace has the same bytes, it also knows which of them are padding."""
    size = sum(one.size for one in moved)
    if not row.by_hand or size == row.bytes:
        return row
    return dataclasses.replace(
        row,
        moves=sum(one.count for one in moved),
        bytes=size,
        written=sum(one.size for one in moved if not one.inward),
        padding=0,
        least=min(size, row.stored),
    )
